"""Admission: bytes of an AdmissionReview in, bytes of the answer out. Pure: no clock, no I/O.

`review` is the codec, `subject` the object under review and the facts looked up for it, `engine` the order of all
that is done to it, `edit_workload` and `edit_pod` the order of the rules, `modes` what a profile only tells.
"""
