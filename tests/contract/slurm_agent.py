"""The contract of the SLURM side and of the bootstrap configurations, tried from outside with a stock OAuth library: every path,
every scope, every refusal. Nothing of ours is imported; what stands here is what a stranger would write from docs/contracts.

    slurm_agent.py DIR      DIR = the data folder of a running `fleet-manager dev` whose own SLURM agent looks seldom (tests/contract/run)

One line a check; stops after the first section with a failure; the last line is `N passed, N failed`.
"""

import sys

import bootstrap_side
import slurm_side
import token_side
from stock import Hub, Trial


def main():
    trial, hub = Trial(), Hub(sys.argv[1])
    sections = [token_side.metadata, token_side.tokens, token_side.assertions, token_side.access_tokens]
    sections += [slurm_side.single, slurm_side.refused, slurm_side.batches, slurm_side.runs, slurm_side.netbox]
    sections += [bootstrap_side.written, bootstrap_side.wrong, bootstrap_side.retired, bootstrap_side.reads, slurm_side.denials]
    for section in sections:
        print(f"--- {section.__doc__}", flush=True)
        section(trial, hub)
        if trial.failed:
            break
    print(f"{trial.passed} passed, {trial.failed} failed")
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
