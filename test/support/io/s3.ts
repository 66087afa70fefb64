import { spawn } from 'node:child_process'
import { createHash, createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { dieWithParent } from '../../../dev/daemon.ts'
import { freePort } from '../../../dev/ports.ts'
import { eventually } from '../gateway.ts'

/** The account that s3rver knows. */
const accessKeyId = 'S3RVER'
const secretAccessKey = 'S3RVER'

export type S3Server = {
  /** What STORAGE_URL says to use a part of the bucket. */
  storageUrl(prefix: string): string
  /** Every key of the bucket. */
  keys(): Promise<string[]>
  close(): Promise<void>
}

/**
 * Starts an S3 server (s3rver) as a process of its own with an empty bucket. It does not look at signatures of version 4, so
 * they are checked in front of it, by the rules of AWS Signature Version 4.
 */
export async function startS3(bucket: string): Promise<S3Server> {
  const directory = await mkdtemp(join(tmpdir(), 'headgate-s3-'))
  const port = await freePort()
  const script = join(import.meta.dirname, '../../../node_modules/s3rver/bin/s3rver.js')
  const args = [
    script,
    '-d',
    directory,
    '-a',
    '127.0.0.1',
    '-p',
    String(port),
    '--silent',
    '--configure-bucket',
    bucket,
  ]
  const child = spawn(process.execPath, args, { stdio: 'ignore' })
  dieWithParent(child, 'SIGKILL')
  const exited = once(child, 'exit')
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
  await eventually(isUp, 'the S3 server is up')
  const front = http.createServer((request, response) => guard(request, response, port))
  front.listen(0, '127.0.0.1')
  await once(front, 'listening')
  const endpoint = `http://127.0.0.1:${(front.address() as AddressInfo).port}`
  const client = new S3Client({
    endpoint,
    forcePathStyle: true,
    region: 'us-east-1',
    credentials: { accessKeyId, secretAccessKey },
  })
  return {
    storageUrl: prefix =>
      `s3://${accessKeyId}:${secretAccessKey}@${bucket}/${prefix}?endpoint=${encodeURIComponent(endpoint)}&region=us-east-1&path_style=true`,
    async keys() {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }))
      return Contents.map(({ Key }) => Key!)
    },
    async close() {
      client.destroy()
      front.closeAllConnections()
      front.close()
      child.kill('SIGKILL')
      await exited
      await rm(directory, { recursive: true, force: true })
    },
  }
}

function guard(request: http.IncomingMessage, response: http.ServerResponse, port: number): void {
  if (!isSigned(request)) {
    request.resume()
    response.writeHead(403, { 'content-type': 'application/xml' })
    response.end('<Error><Code>SignatureDoesNotMatch</Code></Error>')
    return
  }
  const { method, url, headers } = request
  const forwarded = http.request({ host: '127.0.0.1', port, method, path: url, headers }, answer => {
    response.writeHead(answer.statusCode!, answer.headers)
    answer.pipe(response)
  })
  forwarded.on('error', () => response.destroy())
  request.pipe(forwarded)
}

type Claim = { date: string; scope: string; signedHeaders: string; signature: string; payload: string; lifeS: number }

/** Whether a request carries a good and unexpired signature, in its header or in its query. */
function isSigned(request: http.IncomingMessage): boolean {
  const { pathname, searchParams } = new URL(request.url!, 'http://s3')
  const claim = searchParams.has('X-Amz-Signature') ? claimOfQuery(searchParams) : claimOfHeader(request)
  if (!claim) return false
  const [year, month, day, hour, minute, second] = claim.date.match(/\d\d/g)!.slice(1).map(Number) as number[]
  const signedMs = Date.UTC(2000 + year!, month! - 1, day, hour, minute, second)
  if (Date.now() > signedMs + claim.lifeS * 1000) return false
  searchParams.delete('X-Amz-Signature')
  const encoded = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, c => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
  const query = [...searchParams].map(([name, value]) => `${encoded(name)}=${encoded(value)}`).sort()
  const canonical = [
    request.method,
    pathname,
    query.join('&'),
    ...claim.signedHeaders.split(';').map(name => `${name}:${String(request.headers[name]).trim()}`),
    '',
    claim.signedHeaders,
    claim.payload,
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', claim.date, claim.scope, createHash('sha256').update(canonical).digest('hex')].join(
    '\n',
  )
  const key = claim.scope.split('/').reduce<string | Buffer>((key, part) => hmac(key, part), `AWS4${secretAccessKey}`)
  return hmac(key, text).toString('hex') === claim.signature
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

function claimOfQuery(query: URLSearchParams): Claim {
  const of = (name: string) => query.get(`X-Amz-${name}`) ?? ''
  return {
    date: of('Date'),
    scope: of('Credential').slice(accessKeyId.length + 1),
    signedHeaders: of('SignedHeaders'),
    signature: of('Signature'),
    payload: 'UNSIGNED-PAYLOAD',
    lifeS: Number(of('Expires')),
  }
}

function claimOfHeader({ headers }: http.IncomingMessage): Claim | null {
  const parts = /Credential=([^,]+), *SignedHeaders=([^,]+), *Signature=(\w+)/.exec(headers.authorization ?? '')
  if (!parts) return null
  const [, credential, signedHeaders, signature] = parts as unknown as [string, string, string, string]
  const scope = credential.slice(accessKeyId.length + 1)
  const payload = String(headers['x-amz-content-sha256'])
  return { date: String(headers['x-amz-date']), scope, signedHeaders, signature, payload, lifeS: 900 }
}
