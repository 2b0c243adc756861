"""Whatever a valid spec says, it renders to a RayJob that KubeRay and Kueue accept, or it is refused with a path."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.render.render_builders import klass, raw, render_input
from trainsweep.plan import quantity
from trainsweep.render.admission import check_class
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.rayjob import check, gpus_of, render, spec_digest

NAME = st.from_regex(r"[a-z]([a-z0-9-]{0,34}[a-z0-9])?", fullmatch=True)
WHOLE = st.integers(1, 64) | st.integers(1, 64).map(str)
CPU = WHOLE | st.integers(1, 64).map(lambda n: f"{n}000m")
MEMORY = st.integers(1, 512).map(lambda n: f"{n}Gi") | st.just("64G") | st.just("1e9") | st.just(2**30)


@st.composite
def resources(draw, cpu):
    out = {"cpu": draw(cpu)}
    if draw(st.booleans()):
        out["memory"] = draw(MEMORY)
    if gpus := draw(st.integers(0, 8)):
        out["nvidia.com/gpu"] = gpus
    return out


@st.composite
def specs(draw):
    concurrent = draw(st.integers(1, 16))
    groups = draw(
        st.lists(
            st.fixed_dictionaries(
                {"name": NAME.filter(lambda n: n != "head"), "resources": resources(CPU)},
                optional={"maxReplicas": st.integers(4, 64), "minReplicas": st.integers(0, 3)},
            ),
            max_size=3,
            unique_by=lambda g: g["name"],
        )
    )
    return raw(
        trials={"count": draw(st.integers(concurrent, 64)), "maxConcurrent": concurrent},
        training={
            "workers": {"count": draw(st.integers(1, 16)), "resources": draw(resources(WHOLE))},
            "config": draw(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5) | st.floats(-1, 1))),
            "env": [{"name": "A", "value": draw(st.text(max_size=5))}],
        },
        cluster={"workerGroups": groups, "head": draw(st.just({}) | st.just({"resources": {"cpu": 4}}))},
        scheduling={"queueName": draw(st.sampled_from(["", "q"]))},
    )


@given(
    spec=specs(),
    gpus=st.none() | st.integers(0, 64),
    version=st.sampled_from([(1, 5, 0), (1, 5, 1), (1, 6, 1), (1, 7, 0)]),
    name=NAME,
    attempt=st.integers(1, 999),
)
@settings(max_examples=150, deadline=None)
def test_valid_specs_render_valid(spec, gpus, version, name, attempt):
    sweep_class = klass(limits={"gpus": gpus} if gpus is not None else {})
    inp = render_input(spec, sweep_class, kuberay=KubeRay.of_version(version), name=name, attempt=attempt)
    refused = check_class(inp.spec, spec, sweep_class, "team")
    if refused:
        assert all(p.path.startswith("spec.") and p.message for p in refused)
        return
    rayjob = render(inp)
    assert check(rayjob, kueue=bool(inp.spec.scheduling.queue_name)) == []
    assert rayjob == render(inp)
    assert spec_digest(rayjob) == spec_digest(render(inp))
    if gpus is not None:
        assert gpus_of(rayjob) <= gpus
    slots = int(rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["resources"]["trial_slot"])
    assert 1 <= slots <= inp.spec.trials.max_concurrent
    held = 0
    for group in rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        need = inp.spec.training.workers.resources
        held += group["maxReplicas"] * min(
            int(quantity.parse(limits.get(k, 0)) // quantity.parse(v)) for k, v in need.items() if quantity.parse(v)
        )
    assert held >= slots * inp.spec.training.workers.count, "every slot's workers find a place"
