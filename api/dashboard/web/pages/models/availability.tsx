import { Badge } from '@mantine/core'
import type { CatalogModel, ModelProvider } from '../../../wire/models.ts'

const words = { available: 'available', in_cooldown: 'failing now', not_configured: 'not configured' }
const colours = { available: 'green', in_cooldown: 'yellow', not_configured: 'gray' }

/** The status of a provider. */
export function Availability({ status }: Pick<ModelProvider, 'status'>) {
  return (
    <Badge color={colours[status]} miw="max-content">
      {words[status]}
    </Badge>
  )
}

/** The best status among a model’s providers. */
export function bestStatus({ providers }: CatalogModel): ModelProvider['status'] {
  const found = (wanted: ModelProvider['status']) => providers.some(({ status }) => status === wanted)
  return found('available') ? 'available' : found('in_cooldown') ? 'in_cooldown' : 'not_configured'
}
