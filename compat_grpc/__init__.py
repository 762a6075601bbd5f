"""cluster-autoscaler at the wheel: the optional module that serves the fleet over `externalgrpc`.

`controller` asks for it by its name where somebody wants it, and works without its extra installed.
"""
