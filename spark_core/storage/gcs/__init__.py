"""Google Cloud Storage, through google-cloud-storage and obstore (needs `lakegc[gcs]`)."""
