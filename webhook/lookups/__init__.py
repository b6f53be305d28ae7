"""Caches of API objects for admission and the controllers, and the source of the policy in force."""
