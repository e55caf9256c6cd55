"""`lakegc.toml` and the environment: their words, checked and turned into the engine's options.

Secrets are not part of the settings: they come from the environment or from a file that the
settings name, and only when a server is really asked.
"""

from spark_core.settings.all_tables import Settings as Settings
from spark_core.settings.loading import FILE_NAME as FILE_NAME
from spark_core.settings.loading import FILE_VARIABLE as FILE_VARIABLE
from spark_core.settings.loading import find_file as find_file
from spark_core.settings.loading import load_settings as load_settings
from spark_core.settings.loading import no_settings as no_settings
from spark_core.settings.loading import settings_are_given as settings_are_given
