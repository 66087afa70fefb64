import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../../shared/base/errors.ts'
import { memberText } from '../../shared/base/json-member.ts'
import { dayMs } from '../../shared/base/time.ts'
import type { FileServices } from '../../shared/files/file-services.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import { bytesOf } from '../../shared/io/bytes.ts'
import type { Platform } from '../../shared/platform.ts'

/** A response; if it is not JSON, its `content-type` is among its headers. */
export type StoredAnswer = { status: number; headers: Record<string, string>; body: string | Buffer }

/** The owner of a stored response, and how to store it. */
export type AnswerOwner = {
  organisationId: string
  /** The row's key: the caller kind and the client's key. */
  key: string
  environment: 'live' | 'test'
  /** The ids that the path of the request names. */
  pathIds: readonly string[]
  /**
   * The caller's own secret if the response contains a secret that must not be readable in the database; otherwise
   * null.
   */
  sealWith: string | null
}

/** Retention of a stored response. */
export const retentionMs = dayMs
/** Larger responses go to storage. */
const maxInDatabaseBytes = 1024 * 1024

type Row = Pick<IdempotencyKey, 'status' | 'headers' | 'body' | 'storageKey'>
type Place = { body: Uint8Array<ArrayBuffer> } | { storageKey: string } | object

/** The columns of a response, without its body. */
export function headOf(answer: StoredAnswer, { pathIds }: AnswerOwner) {
  const { status, headers } = answer
  // Rate-limit figures are those of the moment: a replay has its own.
  const replayable = Object.entries(headers).filter(([name]) => !name.startsWith('x-ratelimit-'))
  return { status, headers: Object.fromEntries(replayable), objectIds: [...pathIds, ...shownIds(answer)] }
}

/** The ids of the request in the log, of the object that its response is, and of the conversation that this belongs to. */
function shownIds({ headers, body }: StoredAnswer): string[] {
  const text = typeof body === 'string' ? body : body.toString('latin1')
  const isObject = headers['content-type'] === undefined && text.startsWith('{')
  const memberOf = (name: string) => JSON.parse((isObject && memberText(text, name)) || 'null')
  return [headers['x-generation-id'], memberOf('id'), memberOf('conversation')?.id].filter(id => typeof id === 'string')
}

/**
 * Deletes the bodies of stored responses that show an object which its owner deletes. To be called before its own content is
 * deleted, so that a repeated deletion completes an interrupted one. The request stays known: repeating it runs nothing.
 */
export async function eraseAnswers(
  { db, files }: FileServices,
  organisationId: string,
  objectId: string,
): Promise<void> {
  const where = { organisationId, objectIds: { has: objectId } }
  const rows = await db.idempotencyKey.findMany({ where, select: { storageKey: true } })
  const storageKeys = rows.flatMap(({ storageKey }) => storageKey ?? [])
  if (storageKeys.length > 0) await files.removeAnswers(organisationId, storageKeys)
  if (rows.length > 0) await db.idempotencyKey.updateMany({ where, data: { body: null, storageKey: null } })
}

/** The bytes to store for a response: encrypted if they contain a secret. */
export function encodeBody({ body }: StoredAnswer, answerOwner: AnswerOwner): Buffer {
  const plain = Buffer.from(body)
  return answerOwner.sealWith === null ? plain : seal(plain, sealingKey(answerOwner.sealWith, answerOwner))
}

/** Chooses where to store bytes: in the row, in storage if they are large, nowhere if the quota is used up. */
export async function storeBody(
  { files, clock, log }: FileServices,
  answerOwner: AnswerOwner,
  bytes: Buffer,
): Promise<Place> {
  const { organisationId, environment } = answerOwner
  const owner = { organisationId, environment }
  try {
    if (bytes.length <= maxInDatabaseBytes)
      return (await files.quota.hasRoom(owner, bytes.length)) ? { body: new Uint8Array(bytes) } : {}
    const file = { ...owner, purpose: 'answer', filename: 'answer', contentType: 'application/octet-stream' } as const
    const { storageKey } = await files.store(bytesOf(bytes), { ...file, expiresAtMs: clock.now() + retentionMs })
    return { storageKey }
  } catch (error) {
    log.warn({ err: error }, 'there is no room for an answer to be kept for its Idempotency-Key')
    return {}
  }
}

/**
 * Reads the stored response of a row; `collect` accounts for its bytes and may throw. Throws 409 if it could not be stored,
 * or if the caller may not read it.
 */
export async function readStoredAnswer(
  services: Platform,
  row: Row,
  answerOwner: AnswerOwner,
  collect: (bytes: number) => void,
): Promise<StoredAnswer> {
  if (row.body) collect(row.body.length)
  const bytes = row.body ? Buffer.from(row.body) : await readStoredBody(services, row.storageKey, collect)
  return {
    status: row.status!,
    headers: row.headers as Record<string, string>,
    body: answerOwner.sealWith === null ? bytes : unseal(bytes, sealingKey(answerOwner.sealWith, answerOwner)),
  }
}

async function readStoredBody(
  { blobs }: Platform,
  storageKey: string | null,
  collect: (bytes: number) => void,
): Promise<Buffer> {
  const blob = storageKey === null ? null : await blobs.read(storageKey)
  if (blob) {
    try {
      collect(blob.bytes)
    } catch (error) {
      blob.stream.destroy()
      throw error
    }
    return buffer(blob.stream)
  }
  throw keyReusedError(
    'This request was answered, but the response could not be stored or was deleted, and cannot be replayed. To run the request again, use a new key.',
  )
}

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** An encryption key that cannot be derived from the database, which has only the hash of `secret`. */
function sealingKey(secret: string, { organisationId, key }: AnswerOwner): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, `${organisationId} ${key}`, 'kept answer', 32))
}

function seal(plain: Buffer, key: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes)
  const encryption = createCipheriv(cipher, key, nonce)
  const sealed = Buffer.concat([encryption.update(plain), encryption.final()])
  return Buffer.concat([nonce, encryption.getAuthTag(), sealed])
}

function unseal(bytes: Buffer, key: Buffer): string {
  const [nonce, tag] = [bytes.subarray(0, nonceBytes), bytes.subarray(nonceBytes, nonceBytes + tagBytes)]
  try {
    const decryption = createDecipheriv(cipher, key, nonce).setAuthTag(tag)
    return decryption.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + decryption.final('utf8')
  } catch {
    throw keyReusedError(
      'The first response to this Idempotency-Key contains a secret, which only the API key that sent the request can retrieve again.',
    )
  }
}

/** The error for an idempotency key that was used before. */
export function keyReusedError(message: string): GatewayError {
  return new GatewayError('idempotency_key_reused', message, { param: 'Idempotency-Key' })
}
