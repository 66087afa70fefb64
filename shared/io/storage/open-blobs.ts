import type { Config } from '../../base/config.ts'
import { noProxies } from '../../base/proxies.ts'
import type { Clock } from '../../base/time.ts'
import type { Blobs } from './blobs.ts'
import { FileBlobs } from './blobs-file.ts'

/**
 * Opens the storage named by `STORAGE_URL`. `secret` signs file URLs where the storage cannot do that itself, and
 * `olderSecrets` verify them, too. The S3 client is loaded only if it is used: it is large.
 */
export async function openBlobs(
  {
    storageUrl,
    publicUrl,
    proxies = noProxies,
  }: Pick<Config, 'storageUrl' | 'publicUrl'> & Partial<Pick<Config, 'proxies'>>,
  secret: () => Promise<string>,
  clock: Clock,
  olderSecrets: readonly string[] = [],
): Promise<Blobs> {
  if (!storageUrl.startsWith('s3:')) return new FileBlobs({ storageUrl, publicUrl, secret, olderSecrets, clock })
  const { S3Blobs } = await import('./blobs-s3.ts')
  return new S3Blobs(storageUrl, clock, proxies)
}
