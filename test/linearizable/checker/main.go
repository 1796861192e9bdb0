// Says whether a recorded history of takes and settlements is linearizable: whether each bucket, asked by one caller at a time, could have
// answered so, with every call somewhere between its beginning and its end.
//
// Reads a line of JSON per call from standard input; the argument is what a bucket holds, which never comes back. Prints a line per bucket
// that could not, and ends with 1 then.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// Calls of one bucket without an answer: the states to try grow with each.
const unknownMax = 10

const checkMax = time.Minute

type call struct {
	Key     string `json:"key"`
	Client  int    `json:"client"`
	BeganNs int64  `json:"beganNs"`
	EndedNs int64  `json:"endedNs"`
	Cost    int    `json:"cost"`
	// The hold that is settled: it adds its cost, which may be below 0, once, however often it is asked.
	Settles string `json:"settles"`
	// "ok", "over", "already" (settled), or "unknown". A take without an answer was not paid, or paid, or paid and given back at any time
	// later; a settlement without one was made at any time, or not.
	Answer string `json:"answer"`
}

// A take, what gives back one without an answer, or a settlement. `bit` is that of a take without an answer, or of a hold that was settled
// without one.
type step struct {
	cost      int
	bit       uint
	givesBack bool
	settles   bool
}

type bucket struct {
	used int
	// Which calls without an answer have paid, or settled.
	done uint
}

func model(limit int) porcupine.Model {
	answers := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{bucket{}} },
		Step: func(state, input, output interface{}) []interface{} {
			now, take := state.(bucket), input.(step)
			fits := take.settles || now.used+take.cost <= limit
			isDone := now.done&take.bit != 0
			done := bucket{now.used + take.cost, now.done | take.bit}
			switch {
			case take.givesBack && isDone:
				return []interface{}{now, bucket{now.used - take.cost, now.done &^ take.bit}}
			case take.givesBack:
				return []interface{}{now}
			case take.settles && isDone && output != "ok", !take.settles && !fits && output != "ok":
				return []interface{}{now}
			case output == "unknown":
				return []interface{}{now, done}
			case output == "ok" && fits && !isDone:
				return []interface{}{done}
			}
			return nil
		},
	}
	return answers.ToModel()
}

func history(calls []call) ([]porcupine.Operation, error) {
	var all []porcupine.Operation
	unknown := 0
	settled := map[string]uint{}
	for _, each := range calls {
		if each.Answer != "unknown" {
			continue
		}
		if unknown++; unknown > unknownMax {
			return nil, fmt.Errorf("more than %d calls without an answer", unknownMax)
		}
		if each.Settles != "" {
			settled[each.Settles] = 1 << unknown
		}
	}
	takes := unknown + 1
	for _, each := range calls {
		take := step{cost: each.Cost, settles: each.Settles != "", bit: settled[each.Settles]}
		ended := each.EndedNs
		if each.Answer == "unknown" {
			ended = math.MaxInt64
		}
		if each.Answer == "unknown" && !take.settles {
			take.bit = 1 << takes
			takes++
			back := step{cost: each.Cost, bit: take.bit, givesBack: true}
			all = append(all, porcupine.Operation{ClientId: each.Client, Input: back, Call: each.BeganNs, Return: ended})
		}
		all = append(all, porcupine.Operation{ClientId: each.Client, Input: take, Call: each.BeganNs, Output: each.Answer, Return: ended})
	}
	return all, nil
}

func main() {
	limit, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "expected what a bucket holds:", err)
		os.Exit(2)
	}
	calls := map[string][]call{}
	for in := json.NewDecoder(os.Stdin); in.More(); {
		var one call
		if err := in.Decode(&one); err != nil {
			fmt.Fprintln(os.Stderr, "expected a call:", err)
			os.Exit(2)
		}
		calls[one.Key] = append(calls[one.Key], one)
	}
	keys := make([]string, 0, len(calls))
	for key := range calls {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	code := 0
	for _, key := range keys {
		var said string
		if all, err := history(calls[key]); err != nil {
			said = err.Error()
		} else {
			said = string(porcupine.CheckOperationsTimeout(model(limit), all, checkMax))
		}
		if said != string(porcupine.Ok) {
			fmt.Printf("%s: %s, %d calls\n", key, said, len(calls[key]))
			code = 1
		}
	}
	os.Exit(code)
}
