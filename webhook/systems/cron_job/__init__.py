"""CronJobs of Kubernetes itself."""
