"""Leaders that are killed between every two steps: is anything stuck, or done twice?"""
