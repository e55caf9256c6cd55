"""Read and write the garbage-collection rules of a repository, as the server keeps them."""

from __future__ import annotations

from spark_core.errors import IncompleteReadError, RepositoryStateError, SettingsError
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.server_calls import ServerCalls
from spark_core.lakefs.transport import Transport
from spark_core.model import RetentionRules

# The server keeps days in 32 bits and wraps silently: 4294967301 became 5 (`lakefs-facts` 11.17).
LONGEST_RETENTION_DAYS = 36_500
_NOT_FOUND = "not found"


class RulesCalls(ServerCalls):
    """The calls about rules."""

    def __init__(self, transport: Transport) -> None:
        from lakefs_sdk.api.repositories_api import RepositoriesApi

        super().__init__(transport)
        self._rules = RepositoriesApi(transport.client)

    def retention_rules(self, repository_id: str) -> RetentionRules | None:
        """Read the garbage-collection rules; None if there are none.

        Raises:
            NotFoundError: If there is no such repository.
            RepositoryStateError: If days are outside 0..36500. The server wraps numbers
                that do not fit, so such days are not what somebody meant.
            IncompleteReadError: If the answer cannot be read. Taking it for "no rules"
                would change what is kept.

        References:
            `lakefs-facts` 4.1, 11.17, 11.18.
        """
        call = self._on(repository_id, "get_rules", "rules", "retention:GetGarbageCollectionRules")
        answer = self._transport.call(
            call, self._rules.get_gc_rules_with_http_info, repository_id, expected=(404,)
        )
        if answer.status == 404:
            if answer.message == _NOT_FOUND:
                return None
            raise self._transport.errors.of_answer(call, answer)
        body = Body.of(call, answer)
        branches: dict[str, int] = {}
        for rule in body.optional_parts("branches"):
            branch, days = rule.text("branch_id"), rule.integer("retention_days")
            if branches.setdefault(branch, days) != days:
                raise unreadable(call, f"two rules for branch {branch!r}")
        rules = RetentionRules(body.integer("default_retention_days"), branches)
        for where, days in _days(rules):
            if not 0 <= days <= LONGEST_RETENTION_DAYS:
                raise RepositoryStateError(
                    f"rules of repository {repository_id}: {where} is {days} days, wanted 0 to "
                    f"{LONGEST_RETENTION_DAYS}. The server wraps numbers that do not fit, so this "
                    "is not what somebody meant",
                    "Set the rules again with `lakegc rules set`.",
                )
        return rules

    def set_retention_rules(self, repository_id: str, rules: RetentionRules) -> None:
        """Replace the garbage-collection rules, and read them back.

        Raises:
            SettingsError: If days are outside 0..36500, a branch has no name, or
                the server would store the rules as "no rules".
            IncompleteReadError: If the server then shows other rules.
        """
        _require_settable(repository_id, rules)
        call = self._on(
            repository_id, "set_rules", "setting the rules", "retention:SetGarbageCollectionRules"
        )
        from lakefs_sdk.models.garbage_collection_rule import GarbageCollectionRule
        from lakefs_sdk.models.garbage_collection_rules import GarbageCollectionRules

        sent = GarbageCollectionRules(
            default_retention_days=rules.default_retention_days,
            branches=[
                GarbageCollectionRule(branch_id=branch, retention_days=days)
                for branch, days in rules.branches.items()
            ],
        )
        self._transport.call(call, self._rules.set_gc_rules_with_http_info, repository_id, sent)
        kept = self.retention_rules(repository_id)
        if (
            kept is None
            or dict(kept.branches) != dict(rules.branches)
            or kept != RetentionRules(rules.default_retention_days, kept.branches)
        ):
            raise IncompleteReadError(
                f"rules of repository {repository_id}: the server shows {kept} after {rules} were "
                "set",
                "Somebody may have set others at the same time: look at `lakegc rules get`.",
            )

    def delete_retention_rules(self, repository_id: str) -> None:
        """Delete the garbage-collection rules; from then on every commit is retained."""
        call = self._on(
            repository_id,
            "delete_rules",
            "deleting the rules",
            "retention:SetGarbageCollectionRules",
        )
        self._transport.call(call, self._rules.delete_gc_rules_with_http_info, repository_id)


def _require_settable(repository_id: str, rules: RetentionRules) -> None:
    """Refuse rules that the server would refuse, or keep as others than they are.

    Raises:
        SettingsError: As for `set_retention_rules`.
    """
    for where, days in _days(rules):
        if not 0 <= days <= LONGEST_RETENTION_DAYS:
            raise SettingsError(
                f"rules of repository {repository_id}: {where} would be {days} days, wanted 0 "
                f"to {LONGEST_RETENTION_DAYS}; the rules were not changed."
            )
    if "" in rules.branches:
        raise SettingsError(
            f"rules of repository {repository_id}: a rule names no branch; the rules were not "
            "changed."
        )
    if rules.default_retention_days == 0 and not rules.branches:
        raise SettingsError(
            f"rules of repository {repository_id}: a default of 0 days and no branch is what "
            "the server keeps as 'no rules', under which every commit is retained; the rules "
            "were not changed. Add a rule for a branch, or delete the rules if that is what "
            "you want."
        )


def _days(rules: RetentionRules) -> list[tuple[str, int]]:
    return [("the default", rules.default_retention_days)] + [
        (f"branch {branch!r}", days) for branch, days in rules.branches.items()
    ]
