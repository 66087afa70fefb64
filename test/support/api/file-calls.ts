import type { Account, Gateway } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: string; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const line = '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}\n'
const headers = { 'content-type': 'multipart/form-data; boundary=x' }

/** A form with a file, and with the fields that are given. */
function formOf(file: string, fields: Record<string, string> = {}): { headers: Record<string, string>; body: string } {
  const parts = Object.entries({ 'file"; filename="a.jsonl': file, ...fields }).map(
    ([name, text]) => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`,
  )
  return { headers, body: `${parts.join('')}--x--\r\n` }
}

/** Real calls of the routes of files, as documented: by their names in the OpenAPI document. */
export function fileCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const valid = formOf(line, {
    purpose: 'batch',
    'expires_after[anchor]': 'created_at',
    'expires_after[seconds]': '3600',
  })
  const created = async () => {
    const { gateway, account } = world()
    const answer = await gateway.fetch('/v1/files', { key: account.test, ...valid })
    return `/v1/files/${((await answer.json()) as { id: string }).id}`
  }
  const strangers = (path: string): Call[] => [{ path }, { key: world().provisioning, path }]
  const nobody = '/v1/files/file-nobody'
  const missing = (path: string): Call[] => [...strangers(path), { key: world().account.test, path }]
  return {
    'POST /v1/files': {
      success: () => [
        { key: world().account.test, ...valid },
        { key: world().account.live, ...formOf(line, { purpose: 'batch' }) },
      ],
      errors: () => [
        valid,
        { key: world().provisioning, ...valid },
        ...[formOf(''), formOf(line), formOf(line, { purpose: 'vision' }), formOf(line, { colour: 'red' })].map(
          call => ({
            key: world().account.test,
            ...call,
          }),
        ),
        { key: world().account.test, body: '{}', headers: { 'content-type': 'application/json' } },
      ],
    },
    'GET /v1/files': {
      success: async () => {
        await created()
        return [
          { key: world().account.test },
          { key: world().account.test, path: '/v1/files?purpose=batch&limit=1&order=asc' },
        ]
      },
      errors: () => [...strangers('/v1/files'), { key: world().account.test, path: '/v1/files?limit=0' }],
    },
    'GET /v1/files/{id}': {
      success: async () => [{ key: world().account.test, path: await created() }],
      errors: () => missing(nobody),
    },
    'GET /v1/files/{id}/content': {
      success: async () => [{ key: world().account.test, path: `${await created()}/content` }],
      errors: () => missing(`${nobody}/content`),
    },
    'GET /v1/files/{id}/url': {
      success: async () => [{ key: world().account.test, path: `${await created()}/url?expiry=1` }],
      errors: () => [...missing(`${nobody}/url`), { key: world().account.test, path: `${nobody}/url?expiry=0` }],
    },
    'DELETE /v1/files/{id}': {
      success: async () => [{ key: world().account.test, path: await created() }],
      errors: () => missing(nobody),
    },
  }
}
