"""Jobs to choose from, each with how it must end."""

from random import Random

from mita.model.job import State

from .checker import Expect
from .harness import Asked, Scene


def nap(scene: Scene, ms: int = 0) -> Asked:
    return Asked(scene.works.nap.call(scene.number(), ms), Expect())


def thread_nap(scene: Scene, ms: int = 0) -> Asked:
    return Asked(scene.works.thread_nap.call(scene.number(), ms), Expect())


def keyed(scene: Scene, key: str, ms: int = 0) -> Asked:
    return Asked(scene.works.keyed.call(scene.number(), key, ms), Expect())


def rated(scene: Scene, ms: int = 0) -> Asked:
    return Asked(scene.works.rated.call(scene.number(), ms), Expect())


def rated_key(scene: Scene, key: str, ms: int = 0) -> Asked:
    return Asked(scene.works.rated_key.call(scene.number(), key, ms), Expect())


def two_keys(scene: Scene, key: str, ms: int = 0) -> Asked:
    return Asked(scene.works.two_keys.call(scene.number(), key, ms), Expect())


def fair(scene: Scene, key: str, ms: int = 0) -> Asked:
    return Asked(scene.works.fair.call(scene.number(), key, ms), Expect())


def later(scene: Scene, after: float, ms: int = 0) -> Asked:
    return Asked(scene.works.nap.after(after).call(scene.number(), ms), Expect(after=after))


def flaky(scene: Scene, failures: int, ms: int = 0) -> Asked:
    return Asked(scene.works.flaky.call(scene.number(), failures, ms), Expect(attempts=failures))


def moving(scene: Scene, times: int, ms: int = 0) -> Asked:
    return Asked(scene.works.moving.call(scene.number(), times, ms), Expect(reschedules=times))


def doomed(scene: Scene, ms: int = 0) -> Asked:
    return Asked(
        scene.works.doomed.call(scene.number(), ms), Expect(state=State.FAILED, attempts=3)
    )


def reporting(scene: Scene, ms: int = 0) -> Asked:
    return Asked(scene.works.reporting.call(scene.number(), ms), Expect())


def mixed(scene: Scene, count: int, longest: int = 200) -> list[Asked]:
    """Some jobs of each kind, in random order, each at most `longest` ms long."""
    return [_one(scene, scene.random, scene.random.randrange(longest)) for _ in range(count)]


def _one(scene: Scene, chance: Random, ms: int) -> Asked:
    match chance.randrange(13):
        case 0 | 1:
            return keyed(scene, f"k{chance.randrange(5)}", ms // 4)
        case 2 | 3:
            return flaky(scene, chance.randrange(1, 4), ms)
        case 4 | 5:
            return moving(scene, chance.randrange(1, 4), ms)
        case 6 | 7:
            return later(scene, chance.random(), ms)
        case 8 | 9:
            return thread_nap(scene, ms)
        case 12:
            return reporting(scene, ms)
        case 10:
            return doomed(scene, ms // 4)
        case _:
            return nap(scene, ms)
