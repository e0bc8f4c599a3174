"""Desired state and observed state become a `Plan`, which is data; a plan is shown, applied or printed as JSON. Pure.

`desired` turns ``fairshare.yaml`` into resources, `plan` compares them with what exists, `apply` carries a plan out
over the port in `ports`. Nothing here calls AWS: the adapter is `fairshare.aws.provisioner`.
"""
