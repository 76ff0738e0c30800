"""What streams, connect and mirror share on Spark: the session, topics as DataFrames, the sink, progress.

Spark is imported only under pipelines/, streams/, connect/ and mirror/, and only when one of them runs. Without its
packages the import of this one fails with a sentence that says what to install.
"""

from ottla.pipelines.requirements import check_packages

check_packages()
