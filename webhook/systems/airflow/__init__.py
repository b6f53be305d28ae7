"""Airflow."""
