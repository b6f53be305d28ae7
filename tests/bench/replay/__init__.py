"""Disruptions replayed at a constant rate while leaders end: is every account exact, and what does a leader cost?"""
