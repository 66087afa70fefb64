import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { streams } from '../../shared/log-exports/rows.ts'
import { exportPatch, newExport, newReplay } from '../../shared/log-exports/settings.ts'
import { testExport } from '../../shared/log-exports/test-export.ts'
import { presentExport, presentReplay, type ShownExport, type ShownReplay } from '../routes/present-log-export.ts'
import { findOrganisation, org } from './flags.ts'
import { type Command, command } from './parse.ts'

const id = z.string().regex(/^exp_\w+$/, 'must be the export’s id (exp_…)')
const owner = { org: org.optional() }
const file = z.string().min(1)
const ownerOf = (given: string | undefined) => given ?? null

async function readSettings<T>(path: string, schema: z.ZodType<T>): Promise<T> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    throw new GatewayError('invalid_request', `--file ${path} cannot be read: ${(error as Error).message}`)
  }
  let settings: unknown
  try {
    settings = JSON.parse(text)
  } catch {
    throw new GatewayError('invalid_request', `--file ${path} is not JSON.`)
  }
  return validate(schema, settings, 'The file')
}

const line = ({ id, status, kind, name, url, bucket, streams }: ShownExport) =>
  `${id}  ${status.padEnd(8)}  ${kind.padEnd(5)}  ${streams.join(',')}  ${name}  ${bucket ?? url}`
const stateLines = ({ state }: ShownExport) =>
  state.map(
    one =>
      `  ${one.stream.padEnd(8)}  ${one.rows} rows in ${one.batches} batches, ${one.lag_s} s behind` +
      `${one.attempts > 0 ? `, ${one.attempts} failed attempts: ${one.last_error}` : ''}` +
      `${one.gaps.map(({ from, to, reason }) => `\n    gap (${reason}): ${from} to ${to}`).join('')}`,
  )
const replayLine = (one: ShownReplay) =>
  `  ${one.id}  ${one.stream}  ${one.from} to ${one.to}  ${one.status}, ${Math.floor(one.progress * 100)} %, ${one.rows} rows`
const shown = (data: ShownExport) => [line(data), ...stateLines(data), ...data.replays.map(replayLine)].join('\n')

export const logExports: Command[] = [
  command({
    name: 'log-export list',
    summary: 'Lists the log exports of the operator, or of an organisation.',
    help: '[--org ID]',
    flags: z.strictObject(owner),
    async run(services, { org }) {
      if (org !== undefined) await findOrganisation(services, org)
      const data = (await services.logExports.list(ownerOf(org))).map(row => presentExport(services, row))
      return { data: { data }, text: data.map(line).join('\n') || 'No log exports.' }
    },
  }),
  command({
    name: 'log-export create',
    summary: 'Creates a log export of all organisations, or of one; the file has the fields of the API as JSON.',
    help: '--file settings.json [--org ID]',
    flags: z.strictObject({ ...owner, file }),
    async run(services, { org, file }) {
      if (org !== undefined) await findOrganisation(services, org)
      const settings = await readSettings(file, newExport)
      const { row, secret } = await services.logExports.create(ownerOf(org), settings, operatorActor)
      const data = presentExport(services, row)
      return { data: { data, secret }, text: `${line(data)}${secret === null ? '' : `\nsigning secret: ${secret}`}` }
    },
  }),
  command({
    name: 'log-export show',
    summary: 'Shows a log export with the state of its streams and replays.',
    help: '--export exp_… [--org ID]',
    flags: z.strictObject({ ...owner, export: id }),
    async run(services, { org, export: id }) {
      const data = presentExport(services, await services.logExports.get(ownerOf(org), id))
      return { data: { data }, text: shown(data) }
    },
  }),
  command({
    name: 'log-export update',
    summary: 'Changes a log export, or enables or disables it; the file has the changed fields of the API as JSON.',
    help: '--export exp_… [--org ID] [--file changes.json] [--enabled on|off]',
    flags: z.strictObject({ ...owner, export: id, file: file.optional(), enabled: z.enum(['on', 'off']).optional() }),
    async run(services, { org, export: id, file, enabled }) {
      const changes = file === undefined ? {} : await readSettings(file, exportPatch)
      const patch = { ...changes, ...(enabled !== undefined && { enabled: enabled === 'on' }) }
      const data = presentExport(services, await services.logExports.update(ownerOf(org), id, patch, operatorActor))
      return { data: { data }, text: shown(data) }
    },
  }),
  command({
    name: 'log-export roll-secret',
    summary: 'Gives a log export a new signing secret, and prints it.',
    help: '--export exp_… [--org ID]',
    flags: z.strictObject({ ...owner, export: id }),
    async run(services, { org, export: id }) {
      const { row, secret } = await services.logExports.rollSecret(ownerOf(org), id, operatorActor)
      return { data: { data: presentExport(services, row), secret }, text: secret! }
    },
  }),
  command({
    name: 'log-export test',
    summary: 'Sends a sample to the destination of a log export, and prints its answer.',
    help: '--export exp_… [--org ID]',
    flags: z.strictObject({ ...owner, export: id }),
    async run(services, { org, export: id }) {
      const result = await testExport(services, await services.logExports.get(ownerOf(org), id))
      const answer = result.status === null ? result.error : `HTTP ${result.status}`
      return {
        data: { data: result },
        text: `${result.delivered ? 'accepted' : 'not accepted'}: ${answer}`,
        exitCode: result.delivered ? 0 : 1,
      }
    },
  }),
  command({
    name: 'log-export replay',
    summary: 'Delivers the rows of a window once more.',
    help: '--export exp_… --from TIME --to TIME [--org ID] [--stream requests|audit|content]',
    flags: z.strictObject({
      ...owner,
      export: id,
      from: newReplay.shape.from,
      to: newReplay.shape.to,
      stream: z.enum(streams).optional(),
    }),
    async run(services, { org, export: id, stream, ...window }) {
      const body = { ...window, ...(stream !== undefined && { streams: [stream] }) }
      const rows = await services.logExports.replay(ownerOf(org), id, body, operatorActor)
      const data = rows.map(presentReplay)
      return { data: { data }, text: data.map(replayLine).join('\n') }
    },
  }),
  command({
    name: 'log-export cancel-replay',
    summary: 'Ends a running replay of a log export.',
    help: '--export exp_… --replay replay_… [--org ID]',
    flags: z.strictObject({ ...owner, export: id, replay: z.string().min(1) }),
    async run(services, { org, export: id, replay }) {
      const data = presentReplay(await services.logExports.cancelReplay(ownerOf(org), id, replay, operatorActor))
      return { data: { data }, text: replayLine(data) }
    },
  }),
  command({
    name: 'log-export delete',
    summary: 'Deletes a log export: nothing more is sent.',
    help: '--export exp_… [--org ID]',
    flags: z.strictObject({ ...owner, export: id }),
    async run(services, { org, export: id }) {
      await services.logExports.delete(ownerOf(org), id, operatorActor)
      return { data: { data: { id, deleted: true } }, text: `${id} deleted` }
    },
  }),
]
