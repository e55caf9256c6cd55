"""The SDK is imported without checks of arguments; those of others stay."""

import subprocess
import sys

TRIED = """
from pydantic import v1
from spark_core.lakefs.sdk import import_sdk
import_sdk()
from lakefs_sdk.api.branches_api import BranchesApi

@v1.validate_arguments
def checked(number: int):
    return number

try:
    checked("no number")
except v1.ValidationError:
    print("others are checked")
try:
    BranchesApi.get_branch_with_http_info(None, 1, 2)
except v1.ValidationError:
    print("the SDK checks")
except AttributeError:
    print("the SDK goes on")
"""


def test_only_the_calls_of_the_sdk_are_imported_without_their_checks():
    done = subprocess.run(
        [sys.executable, "-c", TRIED], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == ["others are checked", "the SDK goes on"]
