"""Find twins: staged entries that the server's scan cannot see (safety 14, 34).

Such an entry is identical content that was uploaded again.

The entry has the size and checksum of the committed entry at its path, so the scan takes it for
unchanged. Yet reads on the branch are answered from the new object, which nothing else refers to.
Only the branch itself shows it. Who could hide, and where, follows from times (`moments`,
`candidates_by_time`), from sizes and checksums (`evidence`), and from the entries of heads
(`suspects`). Of the branches where they could, `cost_of_asking` says which are asked, at the least
cost; `asking` asks them about paths (`questions`), and `search` does it all. What they read from is
kept (`read_by_branches`), and so are candidates for which the calls do not suffice
(`unasked`), and no others.
"""

from spark_core.references.twins.branch_answers import NONE as NONE
from spark_core.references.twins.branch_answers import READ_BY_BRANCH as READ_BY_BRANCH
from spark_core.references.twins.branch_answers import Answers as Answers
from spark_core.references.twins.candidates_by_time import OBJECTS as OBJECTS
from spark_core.references.twins.candidates_by_time import sizes_of as sizes_of
from spark_core.references.twins.search import find as find
