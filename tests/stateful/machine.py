"""The rules that Hypothesis combines: everything that workers, users and clocks do to a frontier."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from swath.core.encoding import encode_item
from swath.core.errors import InvalidOutcome, LeaseLost, OutputConflict, SwathError
from swath.core.item import Item
from swath.core.store import (
    DEFAULT,
    EncodedItem,
    Fact,
    LaneChange,
    Move,
    MoveKind,
    OutputMove,
    Settings,
    Settlement,
)
from tests.stateful.player import FACTS, FILE, MILLISECOND, SECOND, Hand, Player

T = TypeVar("T")

UNTRUE = Fact(FACTS[0], "learned from a settlement that was refused")
WRONGLY = ("twice", "unknown", "other", "output", "token")

LANES = ("ant", "bee", "cat", "dog")
KEYS = 6
FINISH_ROUNDS = 600

a_number = st.integers(0, len(LANES) * KEYS - 1)
workers = st.sampled_from(["w1", "w2", "w3"])
limits = st.sampled_from([1, 2, 3, 5, 12])
leases = st.sampled_from([3 * SECOND, 30 * SECOND])
intervals = st.sampled_from([0, 0, 0, SECOND, 10 * SECOND])
concurrencies = st.sampled_from([0, 0, 1, 2])
lanes = st.sampled_from(LANES)
some = st.integers(0, 7)  # an index into a list, modulo its length
kinds = st.tuples(
    st.sampled_from(["done", "revisit", "retry", "retry soon", "dead", "skip", "release", "return", "later", "split"]),
    some,
)
universe = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from([1, 1, 1, 2, 7]),
        st.sampled_from([None, None, None, None, 2 * SECOND, 40 * SECOND]),
    ),
    min_size=len(LANES) * KEYS,
    max_size=len(LANES) * KEYS,
)


class FrontierMachine(Player):
    @initialize(
        items=universe,
        interval=intervals,
        concurrency=concurrencies,
        attempts=st.sampled_from([3, 3, 2, 1]),
        at_first=st.integers(8, len(LANES) * KEYS),
    )
    def start(
        self, items: list[tuple[int, int, int | None]], interval: int, concurrency: int, attempts: int, at_first: int
    ) -> None:
        settings = Settings(self.partitions, interval, concurrency, attempts)
        self.open(settings)
        self.universe = [
            self._item(f"key{n // len(LANES)}", LANES[n % len(LANES)], *attributes)
            for n, attributes in enumerate(items)
        ]
        self.do_add(self.universe[:at_first])

    # The rules. Hypothesis leaves some out in every run, so the most common operations are there twice.

    @rule(chosen=st.lists(a_number, min_size=1, max_size=6))
    def add(self, chosen: list[int]) -> None:
        self.step()
        self.do_add([self.universe[n] for n in chosen])

    @rule(worker=workers, limit=limits, lease=leases, turn=some)
    def claim(self, worker: str, limit: int, lease: int, turn: int) -> None:
        self.step()
        self.do_claim(worker, limit, lease, self._order(turn))
        if self.ledger.paused:
            self.do_pause(False)

    @rule(limit=limits, turn=some, outcomes=st.lists(kinds, min_size=1, max_size=5))
    def work(self, limit: int, turn: int, outcomes: list[tuple[str, int]]) -> None:
        """A worker claims and settles some items at once. Other workers get the rest of its claim later."""
        self.step()
        if self.do_claim("swift", limit, 3 * SECOND, self._order(turn)).items:
            self.step()
            self._settle_some(self.hands[-1], turn, outcomes)

    @precondition(lambda self: self.busy())
    @rule(which=some, outcomes=st.lists(kinds, min_size=1, max_size=5), found=st.lists(a_number, max_size=3))
    def settle(self, which: int, outcomes: list[tuple[str, int]], found: list[int]) -> None:
        """Settle some or all items that a claim holds in one partition."""
        self.step()
        self._settle_some(self._one_of(self.busy(), which), which, outcomes, found)

    @precondition(lambda self: self.busy())
    @rule(which=some, kind=kinds)
    def settle_all(self, which: int, kind: tuple[str, int]) -> None:
        self.step()
        self._settle_some(self._one_of(self.busy(), which), which, [kind] * 12)

    @precondition(lambda self: self.busy())
    @rule(which=some, lease=leases)
    def renew(self, which: int, lease: int) -> None:
        self.step()
        self.do_renew(self._one_of(self.busy(), which), lease)

    @precondition(lambda self: self.hands or self.gone)
    @rule(which=some, kind=kinds)
    def settle_oddly(self, which: int, kind: tuple[str, int]) -> None:
        """Calls that must change nothing."""
        self.step()
        before = self.look()
        self._settle_again(which)
        lost = [hand for hand in self.hands + self.gone if self.is_lost(hand)]
        if lost:
            self._settle_as_zombie(self._one_of(lost, which), which, kind)
        for how in WRONGLY:
            self._settle_wrongly(which, how)
        assert self.look() == before, "INV-2, INV-5: something has changed"

    @precondition(lambda self: self.busy())
    @rule(which=some)
    def crash(self, which: int) -> None:
        """A worker is lost. It may come back as a zombie."""
        self.step()
        hand = self._one_of(self.busy(), which)
        self.hands.remove(hand)
        self.gone.append(hand)

    @rule(limit=limits, turn=some, kind=kinds, renews=st.booleans())
    def take_over(self, limit: int, turn: int, kind: tuple[str, int], renews: bool) -> None:
        """A worker sleeps past its lease, unless it renewed it; another one claims, and the first wakes up."""
        self.step()
        if self.do_claim("sleeper", limit, 3 * SECOND, self._order(turn)).items:
            sleeper = self.hands[-1]
            if renews:
                self.do_renew(sleeper, 30 * SECOND)
            self.advance(3 * SECOND + MILLISECOND)
            self.do_claim("heir", limit, 30 * SECOND, self._order(turn))
            before = self.look()
            if self.is_lost(sleeper):
                self._settle_as_zombie(sleeper, turn, kind)
                assert self.look() == before, "INV-2: a zombie has changed something"

    @rule(milliseconds=st.sampled_from([1, 100, 1_000, 2_000, 10_000, 40_000]))
    def wait(self, milliseconds: int) -> None:
        self.step()
        self.advance(milliseconds * MILLISECOND)

    @precondition(lambda self: self.ledger.claims)
    @rule()
    def expire(self) -> None:
        """All leases end, except those that are renewed."""
        self.step()
        latest = max(claim.expires_at for claim in self.ledger.claims.values())
        if latest > self.clock.now():
            self.advance(latest - self.clock.now() + MILLISECOND)

    @rule(seconds=st.sampled_from([1, 20, 4_000]), how_long=st.sampled_from([0, 1, 1]))
    def step_back(self, seconds: int, how_long: int) -> None:
        """The clock steps back, mostly to be set right soon."""
        self.step()
        for lane in LANES:  # every partition has seen this moment, whichever it looked into before
            self.do_change_lane(lane, LaneChange())
        self.advance(-seconds * SECOND)
        if how_long:
            self.do_claim("early", 3, 3 * SECOND, self._order(seconds))
            self.advance(seconds * SECOND)

    @rule(
        lane=lanes,
        what=st.sampled_from(["pause", "block", "interval", "concurrency", "defaults", "attempts", "frontier"]),
        interval=intervals,
        concurrency=concurrencies,
        plain=st.booleans(),
    )
    def change(self, lane: str, what: str, interval: int, concurrency: int, plain: bool) -> None:
        """Change limits, pauses and blocks. The next change resumes what is paused."""
        self.step()
        if self.ledger.paused:
            self.do_pause(False)
        paused = [name for name, known in self.ledger.lanes.items() if known.paused]
        match what:
            case "pause":
                self.do_change_lane(paused[0] if paused else lane, LaneChange(paused=not paused))
            case "block":
                self.do_change_lane(lane, LaneChange(blocked_until=0 if plain else self.clock.now() + interval))
            case "interval":
                self.do_change_lane(lane, LaneChange(min_interval=DEFAULT if plain else interval))
            case "concurrency":
                self.do_change_lane(lane, LaneChange(concurrency=DEFAULT if plain else concurrency))
            case "defaults":
                self.do_change_settings(interval, None if plain else concurrency, None)
            case "attempts":
                self.do_change_settings(None, None, concurrency + 1)
            case _:
                self.do_pause(True)
        if plain:  # what was queued under the old limits is asked for under the new ones
            self.do_claim("prompt", 5, 3 * SECOND, self._order(interval))

    @rule(chosen=st.lists(st.integers(0, 30), min_size=1, max_size=6))
    def reopen(self, chosen: list[int]) -> None:
        self.step()
        everything = [*self.look().found.items()]
        picked = [everything[n] for n in chosen if n < len(everything)]
        places = {name: (found.partition, found.position) for name, found in picked if found.position is not None}
        self.ledger.reopened([*places], self.must(lambda store: store.reopen([*places.values()])))

    @rule(chosen=st.lists(st.integers(0, 30), min_size=1, max_size=8), result=st.sampled_from([None, '"dropped"']))
    def drop(self, chosen: list[int], result: str | None) -> None:
        """Items in any state are named; those that wait are dropped."""
        self.step()
        picked = [named for n, named in enumerate(self.look().found.items()) if n in chosen]
        places = [(found.partition, found.position) for _, found in picked if found.position is not None]
        count = self.must(lambda store: store.drop([*places, *places, (0, 10**9)], result))
        self.ledger.dropped([name for name, found in picked if found.state in ("ready", "delayed")], count)

    @precondition(lambda self: any(entry.state == "dead" for entry in self.ledger.entries.values()))
    @rule(which=some, first=some, discovered=st.lists(a_number, max_size=3))
    def repair(self, which: int, first: int, discovered: list[int]) -> None:
        """Dead items are settled without a claim. If one of those named is not dead, nothing is."""
        self.step()
        before = self.look()
        dead = {name: found for name, found in before.found.items() if found.state == "dead"}
        partition = self._one_of([found.partition for found in dead.values()], which)
        places = {name: found.position or 0 for name, found in dead.items() if found.partition == partition}
        moves = [
            Move(place, MoveKind.DONE, result=f"[{n}]")
            if (n + first) % 3
            else Move(place, MoveKind.DEAD, reason=f"repair {n}")
            for n, place in enumerate(list(places.values())[: 1 + first])
        ]
        length = self.ledger.outputs.get(FILE, 0)
        settlement = Settlement(
            partition,
            0,
            moves,
            [self.universe[n] for n in discovered],
            [OutputMove(FILE, length, length + 10)],
            [Fact(FACTS[0], f'"repair {self.steps}"')],
            {"repairs": len(moves)},
            {next(iter(places))[0]: {"repairs": 1}},
        )
        for found in before.found.values():
            if found.partition == partition and found.state != "dead" and found.position is not None:
                wrong = settlement._replace(moves=[*moves, Move(found.position, MoveKind.DONE)])
                self.refused(lambda store, wrong=wrong: store.repair(wrong), InvalidOutcome)  # type: ignore[misc]
                break
        wrong = settlement._replace(outputs=[OutputMove(FILE, length + 1, length + 10)])
        self.refused(lambda store: store.repair(wrong), OutputConflict)
        assert self.look() == before, "INV-5: something has changed"
        reply = self.must(lambda store: store.repair(settlement))
        self.ledger.repaired({place: name for name, place in places.items()}, settlement, reply)

    @rule(partition=some)
    def empty_inbox(self, partition: int) -> None:
        self.step()
        self.must(lambda store: store.empty_inbox(partition % self.partitions))
        assert self.look().status[partition % self.partitions].inbox == 0

    @rule(turn=some, by=st.sampled_from(["interval", "concurrency"]))
    def slow_down(self, turn: int, by: str) -> None:
        """A stricter default holds for lanes that were queued under the old one."""
        self.step()
        before = self.ledger.settings
        claimed = self.do_claim("hasty", 5, 3 * SECOND, self._order(turn)).items
        if by == "concurrency":
            self.do_change_settings(0, 2, None)
        else:
            if claimed:
                self._settle_some(self.hands[-1], turn, [("done", 0)] * 5)
            self.do_change_settings(10 * SECOND, None, None)
        self.step()
        self.do_claim("slowed", 12, 3 * SECOND, self._order(turn))
        self.do_change_settings(before.min_interval, before.concurrency, None)

    @rule(partition=some, which=some)
    def requeue(self, partition: int, which: int) -> None:
        """Place lanes by the present settings."""
        self.step()
        partition %= self.partitions
        numbers = [number for number, lane in self.look().lanes if lane.partition == partition]
        self.must(lambda store: store.requeue_lanes(partition, numbers[which % 2 :]))

    @rule(turn=some, by=st.sampled_from(["default", "lane"]))
    def speed_up(self, turn: int, by: str) -> None:
        """When the interval begins to run from the start, items in flight count as started."""
        self.step()
        before = self.ledger.settings
        self.do_change_settings(10 * SECOND, 1, None)
        claimed = {item.lane for item in self.do_claim("patient", 5, 3 * SECOND, self._order(turn)).items}
        self.step()
        if by == "default":
            self.do_change_settings(None, 2, None)
        else:
            for lane in sorted(claimed):
                self.do_change_lane(lane, LaneChange(concurrency=2))
        self.do_claim("eager", 12, 3 * SECOND, self._order(turn))
        for lane in sorted(claimed):
            self.do_change_lane(lane, LaneChange(concurrency=DEFAULT))
        self.do_change_settings(before.min_interval, before.concurrency, None)

    def finish(self) -> None:
        """No item is lost: without limits, a worker that claims only at `next_ready_at` finishes all of them."""
        self.step()
        if self.ledger.paused:
            self.do_pause(False)
        for name, lane in self.ledger.lanes.items():
            if lane.paused or lane.blocked_until:
                self.do_change_lane(name, LaneChange(paused=False, blocked_until=0))
        for _ in range(FINISH_ROUNDS):
            reply = self.do_claim("last", 50, 1_000 * SECOND, range(self.partitions))
            if reply.items:
                for partition in sorted({item.partition for item in reply.items}):
                    mine = [item for item in reply.items if item.partition == partition]
                    self.do_settle(self.hands[-1], partition, [Move(item.position, MoveKind.DONE) for item in mine])
            elif reply.next_ready_at is not None:
                self.advance(max(reply.next_ready_at - self.clock.now(), 0) + MILLISECOND)  # past it for both
            else:
                break
        else:
            raise AssertionError(f"not done after {FINISH_ROUNDS} rounds: {self.ledger.unsettled()}")
        assert self.ledger.unsettled() == [], "INV-4: the store says that nothing waits"
        assert sum(status.inbox for status in self.look().status) == 0

    # What the rules share

    def _item(self, key: str, lane: str, priority: int, span: int, later: int | None) -> EncodedItem:
        item = encode_item(Item(key, lane, priority, {"lo": 0, "hi": 9}, span=span), self.partitions)
        return item._replace(not_before=None if later is None else self.clock.now() + later)

    def _one_of(self, choices: Sequence[T], which: int) -> T:
        return choices[which % len(choices)]

    def _order(self, turn: int) -> list[int]:
        order = [*range(self.partitions)]
        return order[turn % self.partitions :] + order[: turn % self.partitions]

    def _settle_some(
        self, hand: Hand, which: int, outcomes: Sequence[tuple[str, int]], found: Sequence[int] = ()
    ) -> None:
        held = self.open_items(hand)
        partition = held[which % len(held)].partition
        held = [item for item in held if item.partition == partition]
        moves = [self._move(item, *outcome) for item, outcome in zip(held, outcomes, strict=False)]
        length = self.ledger.outputs.get(FILE, 0)
        outputs = [OutputMove(FILE, length, length + 10)] if which % 2 else []
        facts = [Fact(self._one_of(FACTS, which // 2), str(self.steps))]
        self.do_settle(hand, partition, moves, [self.universe[n] for n in found], outputs, facts)

    def _settle_again(self, which: int) -> None:
        """Repeat a settlement whose reply was lost: it is applied once, even if the lease has ended."""
        settled = [(hand, hand.last) for hand in self.hands + self.gone if hand.last]
        if settled:
            self.do_look_up(*self._one_of(settled, which))

    def _settle_as_zombie(self, hand: Hand, which: int, kind: tuple[str, int]) -> None:
        """INV-2: a worker that lost its claim gets LeaseLost and changes nothing."""
        item = hand.items[which % len(hand.items)]
        news, writes = self.universe[-2:], [OutputMove(FILE, 0, 1)]
        for moves in ([self._move(item, *kind)], []):
            settlement = Settlement(
                item.partition, hand.number + 1, moves, news, writes, [UNTRUE], *self._miscount(item)
            )
            self.refuse_settle(hand, settlement, LeaseLost)
        self.refused(lambda store: store.renew(self.ref(store, hand), SECOND), LeaseLost)

    def _settle_wrongly(self, which: int, how: str) -> None:
        """Refused as a whole (INV-5)."""
        hands = [hand for hand in self.busy() if not self.is_lost(hand)]
        if not hands:
            return
        hand = self._one_of(hands, which)
        item = self.open_items(hand)[0]
        if how == "token":
            hand = hand.as_stranger()
        moves = [Move(item.position, MoveKind.DONE)]
        outputs: list[OutputMove] = []
        refuses: type[SwathError] = InvalidOutcome
        if how == "twice":
            moves *= 2
        elif how == "unknown":
            moves.append(Move(10**9, MoveKind.DEAD, reason="?"))
        elif how == "other":
            others = [it for other in hands if other is not hand for it in self.open_items(other)]
            moves += [Move(it.position, MoveKind.DONE) for it in others if it.partition == item.partition]
            if len(moves) == 1:
                return
        elif how == "token":
            refuses = LeaseLost
        else:
            outputs, refuses = [OutputMove(FILE, self.ledger.outputs.get(FILE, 0) + 1, 10**6)], OutputConflict
        settlement = Settlement(
            item.partition, hand.number + 1, moves, self.universe[-2:], outputs, [UNTRUE], *self._miscount(item)
        )
        self.refuse_settle(hand, settlement, refuses)

    def _miscount(self, item: Item) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Counters of a settlement that is refused: none of them may change."""
        return {"moves": 1_000}, {item.lane: {"moves": 1_000}}

    def _move(self, item: Item, kind: str, extra: int) -> Move:
        at = item.position
        match kind:
            case "done":
                return Move(at, MoveKind.DONE, result=f"[{extra}]" if extra else None)
            case "revisit":
                payload = f'{{"visit":{extra}}}' if extra % 2 else None
                return Move(at, MoveKind.DONE, delay=extra * 5 * SECOND, result=f"[{extra}]", payload=payload)
            case "retry":
                return Move(at, MoveKind.RETRY, delay=extra * 5 * SECOND, reason=f"reason {extra}", error="Traceback")
            case "retry soon":
                return Move(at, MoveKind.RETRY, delay=0, reason="soon")
            case "dead":
                return Move(at, MoveKind.DEAD, reason=f"reason {extra}", error=None if extra else "Traceback")
            case "skip":
                return Move(at, MoveKind.DONE, started=False)
            case "release" | "return":
                return Move(at, MoveKind.RELEASE, started=kind == "release")
            case "later":
                return Move(at, MoveKind.RELEASE, delay=extra * 5 * SECOND, started=extra % 2 == 0)
            case _:
                rest = encode_item(
                    Item(f"{item.key}|{self.steps}.{item.position}", item.lane, item.priority), self.partitions
                )
                rest = rest._replace(payload=f'{{"lo":{extra}}}', span=item.span)
                return Move(at, MoveKind.SPLIT, payload=f'{{"hi":{extra}}}', rest=rest, result=f"[{extra}]")
