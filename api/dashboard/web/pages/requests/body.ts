import { isObject } from '../../../../../shared/base/is-object.ts'
import type { RequestDetail } from '../../../wire/requests.ts'

/** Parameters that are counts of what was sent, or parts of objects. */
const isSetting = (name: string) => name !== 'tools' && name !== 'models' && !name.includes('.')

/**
 * The model that a request named: `auto` where it left the choice to the gateway. Of an alias that several models share, the one that
 * the gateway chose.
 */
export function namedModel({ model, routing }: Pick<RequestDetail, 'model' | 'routing'>): string {
  return routing === null || routing.reason.startsWith('the alias ') ? model : 'auto'
}

/** A body with the model and the settings of a request, and a placeholder for what is not logged. */
export function outlineOf(request: RequestDetail): object {
  const { type, streamed, parameters } = request
  const settings = Object.fromEntries(Object.entries(parameters ?? {}).filter(([name]) => isSetting(name)))
  const named = { model: namedModel(request), ...settings, ...(streamed && { stream: true }) }
  if (type === 'chat' || type === 'messages' || type === 'generate_content')
    return { ...named, messages: [{ role: 'user', content: '…' }] }
  if (type === 'completion') return { ...named, prompt: '…' }
  return { ...named, input: '…' }
}

/** The JSON object in a text; null if it is cut off or none. */
export function bodyOf(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/** JSON with indentation; other text as it is. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
