"""The Account of a workload, the runs of Airflow that have nothing else, and the retries after which it begins anew."""
