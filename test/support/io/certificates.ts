import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../dev/run.ts'

/** PEM texts, and the files that have them. */
export type Certificate = { cert: string; key: string; certFile: string; keyFile: string }
export type Authority = Certificate & {
  /** A certificate for the loopback address and further hosts, signed by this authority. */
  issue(name: string, hosts?: readonly string[]): Promise<Certificate>
  remove(): Promise<void>
}

/** A certificate authority of a test's own, made by openssl. */
export async function createAuthority(): Promise<Authority> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-certificates-'))
  const at = (file: string) => join(folder, file)
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const read = async (name: string): Promise<Certificate> => {
    const [certFile, keyFile] = [at(`${name}.pem`), at(`${name}.key`)]
    const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
    return { cert, key, certFile, keyFile }
  }
  await openssl('req', '-x509', ...newKey, '-subj', '/CN=authority', '-keyout', 'ca.key', '-out', 'ca.pem')
  return {
    ...(await read('ca')),
    async issue(name, hosts = []) {
      const names = ['localhost', ...hosts].map(host => `DNS:${host}`)
      await writeFile(at(`${name}.ext`), `subjectAltName=IP:127.0.0.1,${names.join(',')}\n`)
      await openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
      const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', `${name}.ext`, '-days', '2']
      await openssl('x509', '-req', '-in', `${name}.csr`, ...signed, '-out', `${name}.pem`)
      return read(name)
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
