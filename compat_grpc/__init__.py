"""cluster-autoscaler at the wheel: the optional module that serves the fleet over `externalgrpc`.

Nothing is served yet; `controller` never imports this package, and works without its extra installed.
"""
