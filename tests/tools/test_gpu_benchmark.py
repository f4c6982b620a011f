"""The benchmark for a first GPU: it goes on where it stopped, and a part that fails says why."""

import json
import sys
from importlib.util import find_spec

import pytest

ENDED = {"part": "answers", "gpu": "cupy:99", "what": "ended", "seconds": 3.0}


@pytest.fixture
def measured(script, monkeypatch, tmp_path):
    """Run the script, short, with these options; return its exit code, and the lines of its file."""

    def call(*options):
        arguments = ["gpu.py", "--short", "--output", str(tmp_path), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        code = script("gpu").main()
        file = tmp_path / "gpu.jsonl"
        return code, file.read_text().splitlines() if file.exists() else []

    return call


def test_a_part_that_fails_says_why(measured, capsys):
    code, (_, line) = measured("--gpus", "cupy:99", "--parts", "answers")
    ended = json.loads(line)
    assert (ended["part"], ended["gpu"], ended["what"]) == ("answers", "cupy:99", "ended")
    assert "Unavailable" in ended["cause"]
    assert code == 1
    assert "answers, cupy:99: ended with an error" in capsys.readouterr().out


def test_what_was_measured_is_not_measured_again(measured, tmp_path):
    (tmp_path / "gpu.jsonl").write_text(json.dumps(ENDED))
    code, lines = measured("--gpus", "cupy:99", "--parts", "answers")
    assert code == 0
    assert [json.loads(line) for line in lines] == [ENDED]


@pytest.mark.parametrize("before", ["", '{"part": "answers", "gpu": "cupy:99", "what": "ended", "sec'])
def test_without_time_the_parts_that_are_left_are_named(measured, tmp_path, capsys, before):
    (tmp_path / "gpu.jsonl").write_text(before)
    code, lines = measured("--gpus", "cupy:99", "--parts", "answers", "--seconds", "1")
    assert code == 2
    assert "no time was left for answers of cupy:99: run the same command again" in capsys.readouterr().out
    assert lines == before.splitlines()


def test_a_missed_target_fails(measured, tmp_path):
    missed = {"part": "times", "gpu": "cupy", "what": "block / events", "figure": 0.03, "limit": 0.02}
    (tmp_path / "gpu.jsonl").write_text("\n".join(map(json.dumps, [missed, ENDED])))
    code, _ = measured("--gpus", "cupy:99", "--parts", "answers")
    assert code == 1


@pytest.mark.libraries
@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed; CI's second environment has it")
def test_every_part_that_needs_no_gpu_runs_on_the_cpu_of_jax(measured):
    parts = ("machine", "detection", "times", "copies", "answers", "faults")
    code, lines = measured("--gpus", "jax:cpu", "--parts", *parts)
    assert code == 0
    found = [json.loads(line) for line in lines if line]
    assert {line["part"] for line in found if "figure" in line} == set(parts)
    assert not [line for line in found if "cause" in line]
