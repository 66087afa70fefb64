import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { splitList } from '../../shared/base/variable-files.ts'
import { parseDeployment } from '../../shared/catalog/regions.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { newProviderKey, presentProviderKey } from '../../shared/providers/provider-keys.ts'
import { findOrganisation, org } from './flags.ts'
import { type Command, command } from './parse.ts'

const id = z.string().regex(/^pkey_\w+$/, 'must be the id of a provider key (pkey_…)')
const list = z.string().transform(text =>
  text
    .split(',')
    .map(item => item.trim())
    .filter(Boolean),
)
/** As in `AZURE_DEPLOYMENTS`. */
const deployments = z.string().transform((text, context) => {
  const found = splitList(text).map(parseDeployment)
  if (found.length > 0 && !found.includes(null)) return found.map(one => one!)
  context.addIssue('must be a list such as model=deployment,model=deployment@eu')
  return z.NEVER
})
const { provider, name } = newProviderKey.shape

type Shown = ReturnType<typeof presentProviderKey>

const line = ({ id, provider, name, last4, enabled, test }: Shown) =>
  `${id}  ${provider.padEnd(12)}  …${last4}  ${enabled ? 'enabled ' : 'disabled'}  ${test?.outcome ?? 'untested'}  ${name}`

const shown = (data: Shown) => ({
  data: { data },
  text: data.test?.reason ? `${line(data)}\n${data.test.reason}` : line(data),
})

/** The own provider keys of organisations. A secret comes from a file, so that no list of processes shows it. */
export const ownKeys: Command[] = [
  command({
    name: 'own-key add',
    summary: 'Stores a provider key of an organisation; its secret is read from a file, or from /dev/stdin.',
    help: '--org ID --provider P --name N --secret-file FILE [--models a,b] [--key-ids key_…,key_…] [--resource NAME --deployments model=deployment,…]',
    flags: z.strictObject({
      org,
      provider,
      name,
      secret_file: z.string().min(1),
      models: list.optional(),
      key_ids: list.optional(),
      resource: z.string().optional(),
      deployments: deployments.optional(),
    }),
    async run(services, { org, secret_file: file, resource, deployments = [], ...fields }) {
      await findOrganisation(services, org)
      const place = resource === undefined ? {} : { resource: { name: resource, deployments } }
      const input = newProviderKey.parse({ ...fields, ...place, secret: await readFile(file, 'utf8') })
      return shown(presentProviderKey(await services.providerKeys.create(org, input, operatorActor)))
    },
  }),
  command({
    name: 'own-key list',
    summary: 'Lists the provider keys of an organisation, without their secrets.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const data = (await services.providerKeys.list(org)).map(presentProviderKey)
      return { data: { data }, text: data.map(line).join('\n') || 'No provider keys.' }
    },
  }),
  command({
    name: 'own-key test',
    summary: 'Asks the provider whether it accepts a provider key of an organisation.',
    help: '--org ID --id pkey_…',
    flags: z.strictObject({ org, id }),
    run: async (services, { org, id }) => shown(presentProviderKey(await services.providerKeys.test(org, id))),
  }),
  command({
    name: 'own-key delete',
    summary: 'Deletes a provider key of an organisation: jobs that run with it fail.',
    help: '--org ID --id pkey_…',
    flags: z.strictObject({ org, id }),
    async run(services, { org, id }) {
      await services.providerKeys.delete(org, id, operatorActor)
      return { data: { data: { id, deleted: true } }, text: `${id} deleted` }
    },
  }),
]
