"""Google Cloud Storage, through google-cloud-storage (needs `lakegc[gcs]`)."""
