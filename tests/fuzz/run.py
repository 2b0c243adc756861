"""`make fuzz N=10000`: random sweeps against the real API server, and some hundred of the admitted on a real cluster."""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
from functools import partial
from pathlib import Path

from devcluster import sweeps
from devcluster.cluster import Cluster
from tests.fuzz import dryrun, live
from tests.fuzz.generate import LEAVES
from tests.integration.apiserver import ApiServer
from tests.simulation import section

ROOT = Path(__file__).parents[2]
TOLD = """\
{date}, `make fuzz N={specs} SEED={seed}`: a real API server admitted {admitted} of {specs} specs in {seconds} s, and the
offline verdict differed {differences} times. Of {created} really created beside a canary {launched} got a RayJob, which Kueue
held suspended, and {notAdmitted} the reason why not: ValidationFailed {validationFailed}, without a condition after 30 s {slow},
restarts of the operator {operatorRestarts}, exceptions {exceptions}, the canary {canary}."""


def main(argv: list[str] | None = None) -> int:
    """Runs both parts; the exit status is 1 where anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="specs for the dry run")
    parser.add_argument("--live", type=int, default=300, help="admitted specs that must get a RayJob; 0: none")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the generator")
    parser.add_argument("--cluster", default="fuzz", help="name of the dev cluster; one that is up is left up")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}", flush=True)
    real = options.live > 0
    with Cluster(options.cluster, with_kueue=real, control_plane_only=not real) as cluster:
        if real:
            sweeps.build_images(cluster)
            sweeps.install(cluster)
        else:
            cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "manifests" / "crd"))
            cluster.kubectl("wait", "--for=condition=Established", "crd/trainsweeps.trainsweep.io", "--timeout=30s")
        launches = partial(live.launches, sweeps.default_class(cluster)["spec"] if real else {})
        tally, generator = dryrun.run(
            ApiServer(cluster.kubeconfig), options.count, options.seed, options.live, launches
        )
        problems = tally.shortfalls(generator.rules)
        print(
            f"dry run: {tally.made} specs in {tally.seconds:.0f} s, {tally.admitted / tally.made:.0%} admitted; "
            f"{len(LEAVES)} leaf fields, the rarest in {min(tally.leaves[x] for x in LEAVES)} admitted specs; "
            f"{len(generator.rules)} CEL rules, the rarest refused {min(tally.rules[k] for k in generator.rules)}; "
            f"{len(tally.differences)} verdicts differ from the offline one",
            flush=True,
        )
        result = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seed": options.seed,
            "specs": tally.made,
            "admitted": tally.admitted,
            "seconds": round(tally.seconds),
            "differences": len(tally.differences),
        }
        if real:
            seen = live.run(cluster, tally.kept, tally.odd)
            problems += seen.problems()
            result |= {
                "created": seen.created,
                "launched": seen.launched,
                "notAdmitted": seen.told,
                "validationFailed": len(seen.refused_by_kuberay),
                "slow": len(seen.slow),
                "operatorRestarts": seen.restarts,
                "exceptions": len(seen.exceptions),
                "canary": seen.canary,
            }
    result["problems"] = len(problems)
    print(json.dumps(result))
    for line in problems:
        print(f"FAILED: {line}", file=sys.stderr)
    if real and not problems and options.count >= 10_000:
        section.write("make fuzz", TOLD.format(**result))
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
