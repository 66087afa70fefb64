import { Group, SegmentedControl } from '@mantine/core'
import { FilterPanel, TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { useTime } from '../../components/span.tsx'
import { Together } from '../../components/together.tsx'
import { environments, KeyFilter, MemberFilter } from '../../components/work/filters.tsx'
import { usePlace } from '../../session.tsx'
import { Breakdown } from './breakdown.tsx'
import { calendarSpans, PeriodPicker } from './period.tsx'
import { SeriesChart } from './series-chart.tsx'

/** Who used what: usage by one or two properties, over any time. */
export default function Usage() {
  const [time, setTime] = useTime('month', calendarSpans)
  const [environment, setEnvironment] = useFilter('environment')
  const [key] = useFilter('key')
  const [member] = useFilter('member')
  const [by] = useFilter('by')
  const [rows] = useFilter('rows')
  const [then] = useFilter('then')
  const { has } = usePlace()
  const usesTag = [by, rows, then].includes('tag')
  const choice = { ...time, environment, key, member }
  return (
    <Page
      title="Usage"
      description="Requests, tokens and cost by day, key, member, model, provider, endpoint, end user or tag. Days are UTC. Requests and sessions count when they began."
      actions={<PeriodPicker time={time} onChange={setTime} />}
    >
      <FilterPanel names={['key', 'member', 'environment', 'tag']}>
        <Group align="flex-end">
          {has('keys') && <KeyFilter />}
          <MemberFilter />
          <SegmentedControl
            aria-label="Environment"
            data={[{ value: '', label: 'Auto' }, ...environments]}
            value={environment}
            onChange={setEnvironment}
          />
          {usesTag && <TextFilter name="tag" label="Tag" placeholder="project" w={{ base: '100%', xs: 180 }} />}
        </Group>
      </FilterPanel>
      <Together>
        <SeriesChart choice={choice} />
        <Breakdown choice={choice} />
      </Together>
    </Page>
  )
}
