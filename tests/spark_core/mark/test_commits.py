"""Rules that one call shows and another one knows nothing of."""

from types import SimpleNamespace

import pytest

from spark_core.errors import IncompleteReadError
from spark_core.mark.commits import retained_commits
from spark_core.model import RetentionRules


def test_rules_that_are_gone_when_the_server_lists_the_commits_refuse():
    slices = SimpleNamespace(manifest=SimpleNamespace(facts={"table_prefix": "_lakefs", "options": {}}))
    server = SimpleNamespace(
        retention_rules=lambda _repository: RetentionRules(7, {}), prepare_commits=lambda _repository: None
    )
    run = SimpleNamespace(
        server=server,
        deciding_options={},
        repository=SimpleNamespace(id="repo"),
        begin=lambda _spec: None,
        require_same_instance=lambda _manifest: None,
        load=lambda _spec: slices,
    )
    with pytest.raises(IncompleteReadError, match=r"listed no commits.*nothing was deleted.*run again"):
        retained_commits(run, SimpleNamespace(manifest=None))
