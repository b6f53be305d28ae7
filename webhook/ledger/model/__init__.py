"""What happened to each workload's pods, counted from what is seen of them. Pure: no clock, no I/O.

`pods` reads a pod, `matching` says which rule of a failure policy it matches, `outcomes` how it ended and what that
cost; `account` adds it up, `limits` says what is left and what is to be done, `words` says it in a sentence. `tracker`
has the pods of one workload that are not counted yet, `counting` counts them, and `workload_state` is all that a
replica knows of the workload.
"""
