"""S3 and what speaks like it, through boto3 and obstore."""
