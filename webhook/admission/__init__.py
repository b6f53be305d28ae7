"""Admission: bytes of an AdmissionReview in, bytes of the answer out. Pure: no clock, no I/O.

- `review`: the codec
- `subject`: the object of a request, and what has to be looked up for it
- `object_name`: the name of that object in messages and logs
- `engine`: mutates and validates; `edit_workload`, `edit_immutable` and `edit_pod` apply the rules to an object, in the
  order of webhook/rules/registry.py
- `modes`: warnings and audit annotations in place of edits and denials
- `configuration`: Namespaces, and the policy itself
"""
