import { Group, Select, Stack } from '@mantine/core'
import { useSearchParams } from 'wouter'
import { eventTypes } from '../../../wire/webhooks.ts'
import { FilterPanel, TextFilter, useFilter } from '../../components/filters.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { DeliveryDrawer } from './delivery.tsx'
import { useDeliveries } from './queries.ts'
import { deliveryColumns } from './table.tsx'

const statuses = ['pending', 'delivered', 'failed']
const types = [...eventTypes, 'webhook.test']

/** The delivery whose drawer is open, from the address, and a function that opens one or closes it; filters are kept. */
export function useOpenDelivery(): [opened: string | null, open: (delivery: string | null) => void] {
  const [address, setAddress] = useSearchParams()
  const open = (delivery: string | null) =>
    setAddress(params => {
      const next = new URLSearchParams(params)
      if (delivery === null) next.delete('delivery')
      else next.set('delivery', delivery)
      return next
    })
  return [address.get('delivery'), open]
}

export function DeliveryDialog({ id, onClose }: { id: string; onClose: () => void }) {
  return <DeliveryDrawer key={id} id={id} onClose={onClose} />
}

/** The deliveries of the organisation, or of one endpoint, with filters. */
export function DeliveryList({ endpointId, onOpen }: { endpointId?: string; onOpen: (delivery: string) => void }) {
  const [status] = useFilter('status')
  const [type] = useFilter('type')
  const [url] = useFilter('url')
  const isOfEndpoint = endpointId !== undefined
  const deliveries = useDeliveries({ status, type, url: isOfEndpoint ? '' : url, endpoint: endpointId ?? '' })
  const isFiltered = status + type + (isOfEndpoint ? '' : url) !== ''
  return (
    <Stack>
      <Filters withUrl={!isOfEndpoint} />
      <PagedTable
        label="Deliveries"
        query={deliveries}
        columns={deliveryColumns(onOpen).filter(({ header }) => !isOfEndpoint || header !== 'URL')}
        rowKey={({ id }) => id}
        minWidth={isOfEndpoint ? 560 : 720}
        empty={
          isFiltered ? (
            <Empty title="No deliveries found">Change the filters to see other deliveries.</Empty>
          ) : (
            <Empty title="No deliveries yet">
              {isOfEndpoint
                ? 'Events with its types appear here. Send a sample to try it.'
                : 'Add an endpoint, or submit a job or a batch with a webhook_url, to receive events.'}
            </Empty>
          )
        }
      />
    </Stack>
  )
}

function Filters({ withUrl }: { withUrl: boolean }) {
  const [status, setStatus] = useFilter('status')
  const [type, setType] = useFilter('type')
  const width = { base: '100%', xs: 200 }
  return (
    <FilterPanel names={withUrl ? ['status', 'type', 'url'] : ['status', 'type']}>
      <Group align="flex-end">
        <Select
          label="Status"
          placeholder="All"
          clearable
          clearButtonProps={{ 'aria-label': 'Show all statuses' }}
          w={width}
          data={statuses}
          value={status || null}
          onChange={value => setStatus(value ?? '')}
        />
        <Select
          label="Event"
          placeholder="All"
          clearable
          searchable
          clearButtonProps={{ 'aria-label': 'Show all events' }}
          w={width}
          data={types}
          value={type || null}
          onChange={value => setType(value ?? '')}
        />
        {withUrl && <TextFilter name="url" label="URL" placeholder="Part of the URL" w={width} />}
      </Group>
    </FilterPanel>
  )
}
