"""What becomes of each listed object, and why: the only place that lets one go.

What branches answer in a sweep (`sweep.twins_now`), and a store that shows another object than the
mark saw (`sweep.objects_now`), can only keep.

`fate` has the fates, in the order in which they are decided, and their words, `deciding` the
function that finds that of an object.

A copy in quarantine has no fate: its object was let go. When nobody needs the copy any more,
`upkeep.purge_quarantine_batches` decides.
"""

from __future__ import annotations

from spark_core.fates.fate import Fate as Fate
from spark_core.fates.fate import WhyMayGo as WhyMayGo
