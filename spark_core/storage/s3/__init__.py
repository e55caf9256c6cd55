"""S3 and stores that speak like it, through boto3 and obstore."""
