"""Speculative decoding: a draft guesses, the target checks the whole guess in one pass and adds a token of its own.

Every round after the prompt is one pass of the target over the last token of the text and the g drafted ones: g + 1
positions. What a round emits is what plain decoding would have emitted, greedy or sampled, because the rule of
``lib.speculative.sampling`` sees to it. Guesses past the reply's limit or past a token that ends it are never made or
dropped before they are checked, so no pass is over a position that plain decoding could not reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from transformers import PreTrainedModel

from lib.serving.requests import GenerationRequest
from lib.speculative.drafts import CachedModel, Drafter, Scorer
from lib.speculative.sampling import Greedy, Proposal, Rule, Sampled, Verdict, ended


@dataclass(frozen=True)
class Round:
    """One pass of the target: it began at token ``start`` of the reply (0 the first).

    proposed: drafted tokens that were checked. accepted: the leading ones that were kept. emitted: tokens that the
    reply grew by, accepted + 1 unless one of the accepted ended it.
    """

    start: int
    proposed: int
    accepted: int
    emitted: int

    @property
    def judged(self) -> int:
        """Proposed tokens whose turn came: the kept ones, and the first that was not."""
        return min(self.accepted + 1, self.proposed)


@dataclass(frozen=True)
class Speculated:
    """tokens: the reply, as long as what its rounds emitted. rounds: in order."""

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]

    @property
    def tokens_per_pass(self) -> float:
        """Tokens that one pass of the target brought on average; raises ValueError for an empty reply."""
        if not self.rounds:
            raise ValueError("no tokens were asked for, so no pass was run")
        return len(self.tokens) / len(self.rounds)


@dataclass(frozen=True)
class Counts:
    """How drafted tokens fared by their position in the guess, the first at index 0.

    proposed: how many there were. judged: of these, how many had all before them kept. accepted: how many were kept.
    Only judged ones were held against the target under the text that stands, so the acceptance rate of a position is
    accepted/judged; over proposed it also counts as refused what nobody looked at.
    """

    proposed: tuple[int, ...]
    judged: tuple[int, ...]
    accepted: tuple[int, ...]

    @property
    def acceptance(self) -> float:
        """Accepted over judged, all positions together; raises ValueError if nothing was judged."""
        if not sum(self.judged):
            raise ValueError("no drafted token was judged")
        return sum(self.accepted) / sum(self.judged)


def counts(rounds: Sequence[Round]) -> Counts:
    """Add up rounds, of one reply or of many."""
    longest = max((each.proposed for each in rounds), default=0)

    def reaching(of: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(number > position for number in of) for position in range(longest))

    return Counts(
        proposed=reaching([each.proposed for each in rounds]),
        judged=reaching([each.judged for each in rounds]),
        accepted=reaching([each.accepted for each in rounds]),
    )


@dataclass
class Unfinished:
    """A reply in the making: what is to be guessed next, and what becomes of a guess that was judged.

    draft_tokens: how many are guessed per round, 0 for plain decoding. Raises ValueError if that is negative.
    """

    request: GenerationRequest
    draft_tokens: int
    rule: Rule
    reply: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.draft_tokens < 0:
            raise ValueError(f"a draft of {self.draft_tokens} tokens")

    @property
    def done(self) -> bool:
        """Whether the reply has reached its limit or ended itself."""
        ended_itself = bool(self.reply) and self.reply[-1] in self.request.end_ids
        return ended_itself or len(self.reply) >= self.request.max_new_tokens

    def wanted(self) -> tuple[list[int], int]:
        """The text so far, and how many tokens are to be guessed after it. Raises RuntimeError when it is done."""
        if self.done:
            raise RuntimeError("the reply is complete")
        left = self.request.max_new_tokens - len(self.reply)
        return [*self.request.prompt, *self.reply], min(self.draft_tokens, left - 1)  # the last one is the target's

    def cut(self, guess: Proposal) -> Proposal:
        """A guess without what is past the limit or past a token that ends the reply."""
        return guess.first(min(self.wanted()[1], ended(guess.tokens, self.request.end_ids)))

    def keep(self, guess: Proposal, verdict: Verdict) -> Round:
        """Add what the verdict on a guess leaves of it, and the target's own token."""
        new = [*guess.tokens[: verdict.accepted], verdict.token]
        new = new[: ended(new, self.request.end_ids)]
        done = Round(len(self.reply), len(guess.tokens), verdict.accepted, len(new))
        self.reply += new
        self.rounds.append(done)
        return done

    def result(self) -> Speculated:
        """The reply so far."""
        return Speculated(tuple(self.reply), tuple(self.rounds))


class Speculation(Unfinished):
    """One reply with its target and its draft, round by round; ``speculate`` runs it to its end."""

    def __init__(
        self, target: Scorer, drafter: Drafter, request: GenerationRequest, draft_tokens: int, rule: Rule
    ) -> None:
        super().__init__(request, draft_tokens, rule)
        self.target, self.drafter = target, drafter

    def read_prompt(self) -> None:
        """Let the target read all of the prompt but its last token, which belongs to the first round's pass.

        The draft reads the prompt when it first guesses.
        """
        if len(self.request.prompt) > 1 and not self.done:
            self.target.logits(self.request.prompt[:-1], 1)

    def round(self) -> Round:
        """Guess, check, keep: the reply grows by at least one token. Raises RuntimeError when it is done."""
        text, count = self.wanted()
        guess = self.cut(self.drafter.propose(text, count, self.rule) if count else Proposal())
        logits = self.target.logits([*text, *guess.tokens], len(guess.tokens) + 1)
        return self.keep(guess, self.rule.judge(guess, logits))


def speculate(
    target: PreTrainedModel, drafter: Drafter, request: GenerationRequest, draft_tokens: int, rule: Rule | None = None
) -> Speculated:
    """The reply to a request, with guesses of ``draft_tokens`` tokens; equal to plain decoding's, greedy or in law.

    rule: None takes the request's own (greedy, or its sampling by its seed). A token that ends the reply is delivered.
    Raises ValueError for a negative number of tokens or logits that are not numbers.
    """
    return run(CachedModel(target), drafter, request, draft_tokens, rule)


def run(
    target: Scorer, drafter: Drafter, request: GenerationRequest, draft_tokens: int, rule: Rule | None = None
) -> Speculated:
    """``speculate`` with anything that scores texts in the target's place."""
    speculation = Speculation(target, drafter, request, draft_tokens, rule or rule_of(request))
    speculation.read_prompt()
    while not speculation.done:
        speculation.round()
    return speculation.result()


def replayed(agrees: Sequence[bool], draft_tokens: int) -> tuple[Round, ...]:
    """The rounds of a greedy run, from whether the draft chooses the reply's token at each place of the reply itself.

    A greedy target keeps a drafted token exactly where the draft, having read the target's own text, chooses what the
    target does; what the draft guesses after its first miss is never looked at. So one pass of the draft over a reply
    says how a run with drafts of any length fares. For a reply that ends at its limit.
    """
    rounds: list[Round] = []
    start = 0
    while start < len(agrees):
        guess = agrees[start : start + min(draft_tokens, len(agrees) - start - 1)]
        accepted = sum(1 for _ in takewhile(bool, guess))
        rounds.append(Round(start, len(guess), accepted, accepted + 1))
        start += accepted + 1
    return tuple(rounds)


def rule_of(request: GenerationRequest) -> Rule:
    """Greedy or sampled, as the request says."""
    return Greedy() if request.sampling is None else Sampled(request.sampling)
