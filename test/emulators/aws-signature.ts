import { createHash, createHmac } from 'node:crypto'
import { json, type Recorded, type Reply } from './emulator.ts'

/** An access key that an emulated AWS service knows. */
export type AccessKey = { accessKeyId: string; secretAccessKey: string; sessionToken?: string }

const algorithm = 'AWS4-HMAC-SHA256'
const header =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([\da-f]{64})$/
/** A signature is valid for five minutes around its time. */
const maxSkewMs = 5 * 60_000

function hash(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}

function hmac(key: string | Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest()
}

/** RFC 3986: all but letters, digits and `-._~`. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** The refusal of a request by the front of an AWS service. */
export function denied(status: number, type: string, message: string): Reply {
  return json(
    status,
    { message },
    { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.coral.service/` },
  )
}

/**
 * Checks the signature of a request as AWS does (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html):
 * computes it again from the secret. Returns the refusal, or null if it is right.
 */
export function signatureFault(
  request: Recorded,
  { keys, region, service, now }: { keys: readonly AccessKey[]; region: string; service: string; now: () => number },
): Reply | null {
  const [, id, day, signedRegion, signedService, names = '', signature] =
    header.exec(request.headers.authorization ?? '') ?? []
  if (!id)
    return denied(
      403,
      'IncompleteSignatureException',
      'Authorization header requires Credential, Signature and SignedHeaders.',
    )
  const key = keys.find(({ accessKeyId }) => accessKeyId === id)
  const token = request.headers['x-amz-security-token']
  if (!key) return denied(403, 'UnrecognizedClientException', 'The security token included in the request is invalid.')
  if (key.sessionToken !== token)
    return denied(403, 'ExpiredTokenException', 'The security token included in the request is expired')
  const amzDate = String(request.headers['x-amz-date'] ?? '')
  const [, year, month, date, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(amzDate) ?? []
  const signedMs = Date.UTC(Number(year), Number(month) - 1, Number(date), Number(hour), Number(minute), Number(second))
  if (!(Math.abs(now() - signedMs) <= maxSkewMs))
    return denied(
      403,
      'InvalidSignatureException',
      `Signature expired: ${amzDate} is now earlier than the current time - 5 min.`,
    )
  if (signedRegion !== region || signedService !== service)
    return denied(
      403,
      'InvalidSignatureException',
      `Credential should be scoped to a valid region. and to service ${service}`,
    )
  const expected = signatureOf(request, {
    secret: key.secretAccessKey,
    names,
    amzDate,
    scope: `${day}/${region}/${service}/aws4_request`,
  })
  if (!names.split(';').includes('host') || expected !== signature)
    return denied(
      403,
      'InvalidSignatureException',
      'The request signature we calculated does not match the signature you provided.',
    )
  return null
}

function signatureOf(
  { method, path, query, headers, raw }: Recorded,
  { secret, names, amzDate, scope }: { secret: string; names: string; amzDate: string; scope: string },
): string {
  // The path as it was sent is encoded once more.
  const canonicalPath = path.split('/').map(encode).join('/')
  const canonicalQuery = [...query].map(([name, value]) => `${encode(name)}=${encode(value)}`).sort()
  const canonicalHeaders = names
    .split(';')
    .map(name => `${name}:${String(headers[name]).trim().replace(/\s+/g, ' ')}\n`)
  const canonical = [method, canonicalPath, canonicalQuery.join('&'), canonicalHeaders.join(''), names, hash(raw)]
  const toSign = [algorithm, amzDate, scope, hash(canonical.join('\n'))].join('\n')
  const [day = '', region = '', service = ''] = scope.split('/')
  const signingKey = [day, region, service, 'aws4_request'].reduce<string | Buffer>(
    (key, part) => hmac(key, part),
    `AWS4${secret}`,
  )
  return hmac(signingKey, toSign).toString('hex')
}
