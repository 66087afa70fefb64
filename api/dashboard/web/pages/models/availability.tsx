import { Badge } from '@mantine/core'
import type { CatalogModel, ModelProvider } from '../../../wire/models.ts'

const words = { available: 'available', resting: 'failing now', not_configured: 'not configured' }
const colours = { available: 'green', resting: 'yellow', not_configured: 'gray' }

/** Whether a provider can be called, in a word. */
export function Availability({ status }: Pick<ModelProvider, 'status'>) {
  return (
    <Badge color={colours[status]} miw="max-content">
      {words[status]}
    </Badge>
  )
}

/** Where the best of a model’s providers stands. */
export function bestStatus({ providers }: CatalogModel): ModelProvider['status'] {
  const found = (wanted: ModelProvider['status']) => providers.some(({ status }) => status === wanted)
  return found('available') ? 'available' : found('resting') ? 'resting' : 'not_configured'
}
