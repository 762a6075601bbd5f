"""`python -m compat_grpc`: the controller with cluster-autoscaler at the wheel; options as of `run`."""

from __future__ import annotations

import sys

from controller.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["run", "--driver", "externalgrpc"]
    main()
