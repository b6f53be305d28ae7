"""Workloads of mixed kinds, disrupted at random: is every account exact?"""
