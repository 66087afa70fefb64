import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { aliasArms } from '../../shared/catalog/overrides.ts'
import type { Price } from '../../shared/catalog/schema.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'
import { aliasTarget, modelId, modelPatch, newServer, patchModel, setAlias, setServer } from './catalog-changes.ts'
import { type Command, command } from './parse.ts'

const name = z.string().min(1).max(100)
/** `gpt-5-mini=90,claude-haiku-4-5=10` */
const armsText = z
  .string()
  .transform(text =>
    text.split(',').map(arm => {
      const [model = '', percent = ''] = arm.split('=')
      return { model: model.trim(), percent: percent.trim() === '' ? Number.NaN : Number(percent) }
    }),
  )
  .pipe(aliasArms)
const json = z.string().transform((text, ctx): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    ctx.addIssue('must be JSON')
    return z.NEVER
  }
})

/** Changes a model, and says how it is now. */
async function change(services: Platform, slug: string, patch: z.output<typeof modelPatch>) {
  const id = modelId(services, slug)
  await patchModel(services, id, patch, operatorActor)
  const { disabled, providers } = services.catalog.models.get(id)!
  const prices = Object.fromEntries(providers.map(({ provider, price }) => [provider, price]))
  return { data: { data: { id, disabled, prices } }, text: `${id} is ${disabled ? 'disabled' : 'enabled'}` }
}

/** "$1 input, $4 output per million tokens" */
function priceText({ unit, ...price }: Price): string {
  const amounts = Object.entries(price).map(([name, amount]) =>
    typeof amount === 'object' ? `${name} ${JSON.stringify(amount)}` : `$${amount} ${name.replaceAll('_', ' ')}`,
  )
  return `${amounts.join(', ')} per ${unit === 'token' ? 'million tokens' : unit}`
}

export const catalogCommands: Command[] = [
  command({
    name: 'model disable',
    summary: 'Takes a model out of service for all organisations, until it is enabled again.',
    help: '--model M',
    flags: z.strictObject({ model: name }),
    run: (services, { model }) => change(services, model, { disabled: true }),
  }),
  command({
    name: 'model enable',
    summary: 'Puts a disabled model back into service.',
    help: '--model M',
    flags: z.strictObject({ model: name }),
    run: (services, { model }) => change(services, model, { disabled: false }),
  }),
  command({
    name: 'model price',
    summary: 'Sets the price of a model at a provider, in USD without the margin.',
    help: '--model M --provider P --price \'{"unit":"token","input":"1","output":"4"}\'',
    flags: z.strictObject({ model: name, provider: name, price: json }),
    async run(services, { model, provider, price }) {
      const { data } = await change(services, model, validate(modelPatch, { prices: { [provider]: price } }))
      const { id, prices } = data.data
      return { data, text: `${id} costs ${priceText(prices[provider]!)} at ${provider}, without the margin` }
    },
  }),
  command({
    name: 'model reset',
    summary: 'Sets the state and prices of a model back to those of the catalog file.',
    help: '--model M',
    flags: z.strictObject({ model: name }),
    async run(services, { model }) {
      const id = modelId(services, model)
      const stored = services.catalogOverrides.current.overrides.find(one => one.kind === 'model' && one.name === id)
      const prices = stored?.kind === 'model' ? Object.keys(stored.value.prices ?? {}) : []
      const patch = { disabled: null, prices: Object.fromEntries(prices.map(one => [one, null])) }
      const { data } = await change(services, id, patch)
      return { data, text: `${id} is as the catalog file has it` }
    },
  }),
  command({
    name: 'model alias',
    summary: 'Makes a name another name of a model, or one whose requests several models share, or removes it.',
    help: '--alias A [--model M] [--arms M=PERCENT,M=PERCENT] [--remove]',
    flags: z.strictObject({
      alias: name,
      model: name.optional(),
      arms: armsText.optional(),
      remove: z.boolean().default(false),
    }),
    async run(services, { alias, model, arms, remove }) {
      if (remove && (model !== undefined || arms !== undefined))
        throw new GatewayError('invalid_request', 'Give --model, --arms or --remove.', { param: 'model' })
      const target = remove ? null : aliasTarget(model, arms)
      await setAlias(services, alias, target, operatorActor)
      if (target === null) return { data: { alias, model: null }, text: `${alias} is removed` }
      if ('model' in target) {
        const id = modelId(services, target.model)
        return { data: { alias, model: id }, text: `${alias} names ${id}` }
      }
      const shares = target.arms.map(({ model, percent }) => `${modelId(services, model)} ${percent} %`)
      return { data: { alias, ...target }, text: `${alias} is shared: ${shares.join(', ')}` }
    },
  }),
  command({
    name: 'server add',
    summary: 'Adds a server of your own that speaks OpenAI’s protocol, or replaces one.',
    help: '--name N --base-url U --models \'[{"id":"lab-chat","upstream_model":"my-model","price":{…}}]\' [--api-key-file F] [--data-collection allow|deny] [--zdr]',
    flags: z.strictObject({
      name,
      base_url: z.string(),
      models: json,
      api_key_file: z.string().min(1).optional(),
      data_collection: z.enum(['allow', 'deny']).optional(),
      zdr: z.boolean().default(false),
    }),
    async run(services, { name, base_url, models, api_key_file, data_collection, zdr }) {
      const api_key = api_key_file === undefined ? undefined : (await readFile(api_key_file, 'utf8')).trim()
      const facts = {
        ...(data_collection && { data_collection: data_collection === 'allow' }),
        ...(zdr && { zdr }),
      }
      const given = { base_url, models, ...facts, ...(api_key !== undefined && { api_key }) }
      const server = validate(newServer, given)
      await setServer(services, name, server, operatorActor)
      return { data: { data: { name, base_url, ...facts, models: server.models } }, text: `${name} is added` }
    },
  }),
  command({
    name: 'server list',
    summary: 'Lists the servers that were added, with their models.',
    help: '',
    flags: z.strictObject({}),
    async run({ catalogOverrides }) {
      const data = catalogOverrides.current.overrides.flatMap(one =>
        one.kind === 'server' ? { name: one.name, ...one.value, api_key_last4: one.last4 } : [],
      )
      const lines = data.map(one => `${one.name}  ${one.base_url}  ${one.models.map(({ id }) => id).join(' ')}`)
      return { data: { data }, text: lines.join('\n') || 'No servers yet.' }
    },
  }),
  command({
    name: 'server remove',
    summary: 'Removes a server that was added.',
    help: '--name N',
    flags: z.strictObject({ name }),
    async run(services, { name }) {
      await setServer(services, name, null, operatorActor)
      return { data: { name }, text: `${name} is removed` }
    },
  }),
]
