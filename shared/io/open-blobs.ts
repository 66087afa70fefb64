import type { Config } from '../base/config.ts'
import type { Clock } from '../base/time.ts'
import type { Blobs } from './blobs.ts'
import { FileBlobs } from './blobs-file.ts'

/**
 * Opens the storage that `STORAGE_URL` names. `secret` signs the addresses of files where the storage does not do that
 * itself. The S3 client is loaded only where it is used: it is large.
 */
export async function openBlobs(
  { storageUrl, publicUrl }: Pick<Config, 'storageUrl' | 'publicUrl'>,
  secret: () => Promise<string>,
  clock: Clock,
): Promise<Blobs> {
  if (!storageUrl.startsWith('s3:')) return new FileBlobs({ storageUrl, publicUrl, secret, clock })
  const { S3Blobs } = await import('./blobs-s3.ts')
  return new S3Blobs(storageUrl, clock)
}
