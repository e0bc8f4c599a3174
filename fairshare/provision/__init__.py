"""Desired state and observed state become a `Plan`, which is data; a plan is shown, applied or printed as JSON. Pure.

Nothing here calls AWS: the adapter of the port in `ports` is `fairshare.aws.stack`.

- `desired`: what ``fairshare.yaml`` wants; `alarms` and `dashboard` are parts of it, `tags` says whose a resource is
- `observed`: what exists; `compare` puts both as canonical text side by side
- `plan`: what to change; `refusals`: what is not done, and the way out; `document`: a plan as JSON and as a file
- `apply`: carries a plan out; `stale`: not when something has moved since; `lock`: one at a time
- `place`: where ARNs point
- `export`: the same as documents, for people who deploy another way
"""
