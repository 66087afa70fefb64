import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'
import { SignatureV4 } from '@smithy/signature-v4'
import type { AwsCredentialIdentity, Checksum, SourceData } from '@smithy/types'
import { nodeAgentOptions } from '../../base/proxies.ts'
import { familyOf } from '../../catalog/regions.ts'
import type { ResponseHeaders } from '../../io/http.ts'
import { ProviderError } from '../provider-error.ts'
import type { Identity, IdentityOptions, UnauthorizedRequest } from './identity.ts'
import { TokenIdentity } from './token-identity.ts'

/** Credentials that do not expire are read again after this time, as a file may have others by then. */
const reReadMs = 60 * 60_000

/** The errors (403) that concern the credentials or their signature; another one may be about a missing permission. */
const refusals =
  /^(?:ExpiredToken|InvalidClientTokenId|InvalidSignature|RequestExpired|UnrecognizedClient)(?:Exception)?\b/i

/**
 * An identity at AWS, which signs each request (Signature Version 4). Its credentials are found as AWS' SDKs find them: an access
 * key in the environment or a profile, a role by web identity or SSO, a container's or an instance's role. They are replaced ahead of their
 * end. The library is loaded for the first request. Signatures have the time of the gateway's clock, which is right if the machine's is not.
 */
export function awsIdentity({ provider, proxies, clock }: IdentityOptions): Identity {
  let credentials: AwsCredentialIdentity | null = null
  const kept = new TokenIdentity(async () => {
    const { defaultProvider } = await import('@aws-sdk/credential-provider-node')
    // Without a memory of its own.
    credentials = await defaultProvider({
      clientConfig: { requestHandler: { httpsAgent: nodeAgentOptions(proxies) } },
    })()
    const expiresAtMs = credentials.expiration?.getTime() ?? clock.now() + reReadMs
    return { text: credentials.secretAccessKey, expiresAtMs }
  }, clock)
  const { region, quirks } = provider
  return {
    async authorize(request) {
      if (region === undefined)
        throw new ProviderError('auth', 'No region is configured for signatures.', { unsent: true })
      await kept.authorize()
      return signRequest(request, {
        credentials: credentials!,
        region,
        service: quirks?.signing_name ?? familyOf(provider.name),
        dateMs: clock.now(),
      })
    },
    isRefusal: isSignatureRefusal,
    recordRefusal: () => kept.recordRefusal(),
    get secret() {
      return kept.secret
    },
    close: () => kept.close(),
  }
}

/** Whether an answer refuses the credentials or their signature. */
export function isSignatureRefusal(status: number, headers: ResponseHeaders): boolean {
  return status === 403 && refusals.test(String(headers['x-amzn-errortype'] ?? ''))
}

type Signing = { credentials: AwsCredentialIdentity; region: string; service: string; dateMs: number }

/**
 * The headers that sign a request. The path is signed as it is sent, encoded once more, as all services but S3 require. Of the
 * other headers, only the content type is signed: proxies may add and change others.
 */
export async function signRequest(
  { method, url, headers, body }: UnauthorizedRequest,
  { credentials, region, service, dateMs }: Signing,
): Promise<Record<string, string>> {
  const { protocol, hostname, port, host, pathname, searchParams } = new URL(url)
  if (body !== null && typeof body !== 'string' && !Buffer.isBuffer(body))
    throw new Error('a body that is streamed cannot be signed')
  const signer = new SignatureV4({ credentials, region, service, sha256: Sha256 })
  const signed = await signer.sign(
    {
      method,
      protocol,
      hostname,
      ...(port && { port: Number(port) }),
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: { host, ...(headers['content-type'] && { 'content-type': headers['content-type'] }) },
      body: body ?? '',
    },
    { signingDate: new Date(dateMs) },
  )
  const { host: _host, 'content-type': _contentType, ...added } = signed.headers
  return added
}

/** SHA-256 and its HMAC by OpenSSL, in the form that the signer takes. */
class Sha256 implements Checksum {
  #hash: Hash | Hmac
  readonly #secret: SourceData | undefined

  constructor(secret?: SourceData) {
    this.#secret = secret
    this.#hash = this.#open()
  }

  update(data: Uint8Array): void {
    this.#hash.update(data)
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array(this.#hash.digest()))
  }

  reset(): void {
    this.#hash = this.#open()
  }

  #open(): Hash | Hmac {
    const secret = this.#secret
    return secret === undefined ? createHash('sha256') : createHmac('sha256', Buffer.from(secret as Uint8Array))
  }
}
