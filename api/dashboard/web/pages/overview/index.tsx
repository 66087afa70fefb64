import { SegmentedControl } from '@mantine/core'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { environments } from '../../components/work/filters.tsx'
import { Figures } from './figures.tsx'
import { FirstSteps } from './first-steps.tsx'
import { LowBalance } from './low-balance.tsx'
import { useOverview } from './queries.ts'
import { Usage } from './usage.tsx'

export default function Overview() {
  const [value, set] = useFilter('environment')
  const environment = value === 'test' ? 'test' : 'live'
  const overview = useOverview(environment)
  return (
    <Page
      title="Overview"
      actions={
        <SegmentedControl
          aria-label="Environment"
          data={environments}
          value={environment}
          onChange={chosen => set(chosen === 'live' ? '' : chosen)}
        />
      }
    >
      <Show query={overview} rows={3}>
        {data => (
          <>
            <LowBalance overview={data} />
            <FirstSteps steps={data.first_steps} />
            <Figures overview={data} />
          </>
        )}
      </Show>
      <Usage environment={environment} />
    </Page>
  )
}
