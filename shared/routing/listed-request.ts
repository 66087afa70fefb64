import { standardFile } from '../base/data-uri.ts'
import { GatewayError } from '../base/errors.ts'
import { formatPath } from '../base/json.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Unlisted } from '../kinds/member-reader.ts'
import type { Features } from './features.ts'
import { requestFormats } from './request-formats.ts'

type Request<K extends DirectKind> = { body: DirectKinds[K]['request']; raw: Buffer | null }
/** A request that may be sent, and the members that it lacks, by path without indexes. */
type ListedRequest<K extends DirectKind> = Request<K> & { dropped: readonly string[] }

const nothing: readonly string[] = []

/**
 * The request without the members for which nothing is reserved, and with base64 in its standard form; almost always the same bytes.
 * Throws a GatewayError `unsupported_capability` that names the place where it would be another request without them.
 */
export function listedRequest<K extends DirectKind>(
  { kind, body, raw }: Request<K> & { kind: K },
  { unlisted }: Pick<Features, 'unlisted'>,
): ListedRequest<K> {
  if (!unlisted) return { body, raw, dropped: nothing }
  const refused = unlisted.find(({ why }) => why !== 'dropped' && why !== 'irregular')
  if (refused) throw refusalOf(kind, refused)
  const absent = unlisted.filter(({ why }) => why === 'dropped')
  const dropped = absent.map(({ path }) => path.filter(name => typeof name === 'string').join('.'))
  return { body: edited(body, unlisted), raw: null, dropped }
}

function refusalOf(kind: DirectKind, { path, why }: Unlisted): GatewayError {
  const place =
    requestFormats[kind].namesBlocks && why === 'stored' && path.at(-1) === 'source' ? path.slice(0, -1) : path
  const param = formatPath(place.map(String))
  const message =
    why === 'stored'
      ? `${param}: files of the provider’s storage cannot be used here; send the file itself.`
      : `${param}: what this costs is not known here, so it is not sent. Use content of a known type.`
  return new GatewayError('unsupported_capability', message, { param })
}

/** A copy without the dropped members, and with files in standard base64; what is beside them is shared with the original. */
function edited<T extends object>(body: T, unlisted: readonly Unlisted[]): T {
  const root = { ...body }
  const copies = new Set<unknown>([root])
  for (const { path, why } of unlisted) {
    let at = root as Record<string | number, unknown>
    for (const name of path.slice(0, -1)) {
      if (!copies.has(at[name])) {
        at[name] = Array.isArray(at[name]) ? [...at[name]] : { ...(at[name] as object) }
        copies.add(at[name])
      }
      at = at[name] as typeof at
    }
    const last = path.at(-1)!
    if (why === 'irregular') at[last] = standardFile(String(at[last]))
    else delete at[last]
  }
  return root
}
