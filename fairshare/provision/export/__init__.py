"""What `fairshare setup` makes, and who may do what with it, as documents for people who deploy another way. Pure.

`cloudformation` is the whole stack as one template, `iam` the policies of its roles, `events` what EventBridge carries,
`collector` the function that publishes the gauges. All are made of JSON types, and equal input gives equal documents.
"""
