// Says whether a recorded history of takes is linearizable: whether each bucket, asked by one caller at a time, could have answered so, with
// every call somewhere between its beginning and its end.
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
	// "ok", "over", or "unknown": without an answer, it was not paid, or paid, or paid and given back at any time later.
	Answer string `json:"answer"`
}

// A take, or what gives back one without an answer. `bit` is that one's.
type step struct {
	cost      int
	bit       uint
	givesBack bool
}

type bucket struct {
	used int
	// Which calls without an answer have paid.
	paid uint
}

func model(limit int) porcupine.Model {
	answers := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{bucket{}} },
		Step: func(state, input, output interface{}) []interface{} {
			now, take := state.(bucket), input.(step)
			fits := now.used+take.cost <= limit
			paid := bucket{now.used + take.cost, now.paid | take.bit}
			switch {
			case take.givesBack && now.paid&take.bit != 0:
				return []interface{}{now, bucket{now.used - take.cost, now.paid &^ take.bit}}
			case take.givesBack:
				return []interface{}{now}
			case output == "unknown" && fits:
				return []interface{}{now, paid}
			case output == "unknown", output == "over" && !fits:
				return []interface{}{now}
			case output == "ok" && fits:
				return []interface{}{paid}
			}
			return nil
		},
	}
	return answers.ToModel()
}

func history(calls []call) ([]porcupine.Operation, error) {
	var all []porcupine.Operation
	unknown := 0
	for _, each := range calls {
		take := step{cost: each.Cost}
		ended := each.EndedNs
		if each.Answer == "unknown" {
			if unknown++; unknown > unknownMax {
				return nil, fmt.Errorf("more than %d calls without an answer", unknownMax)
			}
			take.bit, ended = 1<<unknown, math.MaxInt64
			back := step{each.Cost, take.bit, true}
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
