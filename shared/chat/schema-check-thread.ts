import { parentPort } from 'node:worker_threads'
import { checkText } from './schema-check.ts'

/** A thread that checks texts against schemas, one after the other (schema-checks.ts). `schema`: as JSON. */
export type CheckTask = { id: number; text: string; schema: string; repairs: boolean }

parentPort!.on('message', ({ id, text, schema, repairs }: CheckTask) => {
  parentPort!.postMessage({ id, checked: checkText(text, JSON.parse(schema), repairs) })
})
